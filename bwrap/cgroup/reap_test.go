package cgroup_test

import (
	"os"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold/bwrap/cgroup"
)

// Reaping removes what is empty and whose maker has gone, and a look at it
// changes nothing.
func TestReap(t *testing.T) {
	t.Parallel()
	f := unified()
	for dir, procs := range map[string]string{
		"/sys/fs/cgroup/pinfold-99999999-5-aa": "", "/sys/fs/cgroup/pinfold-99999999-5-bb": "12",
		"/sys/fs/cgroup/pinfold-by-hand": "", "/sys/fs/cgroup/pinfold-" + strconv.Itoa(os.Getpid()) + "-777-aa": "",
	} {
		f.files[dir+"/cgroup.procs"] = procs
	}
	o := cgroup.Options{Kernel: f, Manager: noSystemd{}}
	stale := []string{"/sys/fs/cgroup/pinfold-99999999-5-aa", "/sys/fs/cgroup/pinfold-99999999-5-bb"}
	if diff := cmp.Diff(stale, cgroup.Stale(o)); diff != "" {
		t.Errorf("stale (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(stale[:1], cgroup.Reap(o)); diff != "" {
		t.Errorf("reaped (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(stale[1:], cgroup.Stale(o)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}
