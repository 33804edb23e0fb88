package cgroup_test

import (
	"errors"
	"testing"

	"pinfold/bwrap/cgroup"
	"pinfold/policy"
)

func TestCheckNamed(t *testing.T) {
	t.Parallel()
	f := unified()
	f.make("/sys/fs/cgroup/ci", "cgroup.procs")
	for path, there := range map[string]bool{
		"/ci": true, "ci": true, "/sys/fs/cgroup/ci": true, "/sys/fs/cgroup": true, "/": true,
		"/none": false, "none": false, "/sys/fs/cgroup/none": false, "/ci/cgroup.procs": false, "/../../../proc": false,
	} {
		err := cgroup.Check(cgroup.Options{Kernel: f, Path: path})
		r, refused := errors.AsType[*policy.Refusal](err)
		if there != (err == nil) || !there && (!refused || r.Code != "cgroup_missing" || r.Fix == "") {
			t.Errorf("Check(%q) = %v; it is there: %v", path, err, there)
		}
	}
	if err := cgroup.Check(cgroup.Options{Kernel: newFake("", ""), Path: "/"}); err == nil {
		t.Error("a machine that mounts no cgroups has one")
	}
}
