package bwrap_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold/bwrap"
	"pinfold/plan"
	"pinfold/policy"
	"pinfold/stub/wire"
)

// Every limit is in the plan, and what the kernel keeps by process is the
// stub's to set.
func TestTranslateLimits(t *testing.T) {
	t.Parallel()
	l, err := bwrap.TranslateInput(bwrap.Input{
		Argv: []string{"true"}, Dir: "/",
		Limits: policy.Limits{
			CPUs: 1.5, Memory: 64 << 20, PIDs: 7, Files: 99, FileSize: 4096, Tmp: 1 << 20,
			Timeout: 90 * time.Second, IdleTimeout: time.Minute,
		},
	}, machine(), options())
	must(t, err)
	want := []plan.Limit{
		{Name: "cpus", Value: "1.5"},
		{Name: "memory", Value: "67108864"},
		{Name: "pids", Value: "7"},
		{Name: "files", Value: "99"},
		{Name: "file_size", Value: "4096"},
		{Name: "tmp", Value: "1048576"},
		{Name: "timeout", Value: "1m30s"},
		{Name: "idle_timeout", Value: "1m0s"},
	}
	if diff := cmp.Diff(want, l.Plan.Limits); diff != "" {
		t.Error(diff)
	}
	rlimits := []wire.Rlimit{{Resource: 7, Soft: 99, Hard: 99}, {Resource: 1, Soft: 4096, Hard: 4096}}
	if diff := cmp.Diff(rlimits, l.Setup.Limits); diff != "" {
		t.Error(diff)
	}
	for _, dir := range []string{"/tmp", "/dev/shm"} {
		i := slices.Index(l.Args, dir)
		if i < 5 || !strings.HasSuffix(strings.Join(l.Args[:i+1], " "), "--perms 1777 --size 1048576 --tmpfs "+dir) {
			t.Errorf("%s has no size in %q", dir, l.Args)
		}
	}
}

func TestTranslateWithoutLimits(t *testing.T) {
	t.Parallel()
	l, err := bwrap.TranslateInput(bwrap.Input{Argv: []string{"true"}, Dir: "/"}, machine(), options())
	must(t, err)
	if len(l.Plan.Limits) != 0 || len(l.Setup.Limits) != 0 || slices.Contains(l.Args, "--size") {
		t.Errorf("limits out of nothing: %v %v %q", l.Plan.Limits, l.Setup.Limits, l.Args)
	}
	must(t, l.PlaceLimits("")) // nothing to place
	if r, ok := errors.AsType[*policy.Refusal](l.PlaceLimits("/no/such/cgroup")); !ok || r.Code != "cgroup_missing" {
		t.Errorf("a cgroup that isn't there is taken: %v", r)
	}
}
