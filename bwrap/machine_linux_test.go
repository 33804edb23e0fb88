package bwrap_test

import (
	"os"
	"slices"
	"testing"

	"pinfold/bwrap"
	"pinfold/plan"
)

func TestProbe(t *testing.T) {
	t.Parallel()
	m, err := bwrap.Probe(t.Context(), plan.Tool{Path: "/x", Version: "0.9.1"})
	must(t, err)
	root, err := os.Lstat("/")
	must(t, err)
	if m.Version != [3]int{0, 9, 1} || m.UID != os.Getuid() || m.Root != idOf(root) {
		t.Errorf("got %+v", m)
	}
	paths := func(es []bwrap.ProcEntry) (ps []string) {
		for _, e := range es {
			ps = append(ps, e.Path)
		}
		return ps
	}
	if !slices.Contains(paths(m.ProcReadOnly), "/proc/sys") || os.Getuid() != 0 && len(m.ProcReadOnly) != 1 {
		t.Errorf("got %v, wanted /proc/sys, and more for root alone", m.ProcReadOnly)
	}
	for _, p := range []string{"/proc/keys", "/proc/key-users", "/proc/timer_list", "/proc/kcore"} {
		f, err := os.Open(p)
		if err == nil {
			f.Close()
		}
		if (err == nil) != slices.Contains(paths(m.ProcMasks), p) {
			t.Errorf("%s: %v, and the masks are %v", p, err, m.ProcMasks)
		}
	}
	again, err := bwrap.Probe(t.Context(), plan.Tool{Path: "/x", Version: "0.9.1"})
	must(t, err)
	if !slices.Equal(m.ProcMasks, again.ProcMasks) || !slices.Equal(m.ProcReadOnly, again.ProcReadOnly) {
		t.Error("two probes differ")
	}
}

func TestProbeRefusesNoVersion(t *testing.T) {
	t.Parallel()
	if m, err := bwrap.Probe(t.Context(), plan.Tool{Path: "/x"}); err == nil {
		t.Errorf("got %+v, wanted an error", m)
	}
}
