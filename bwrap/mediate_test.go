package bwrap_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold/bwrap"
	"pinfold/guard"
	"pinfold/notify"
	"pinfold/plan"
	"pinfold/policy"
	"pinfold/stub/wire"
)

// notifying is a machine whose supervisor can answer system calls.
func notifying() bwrap.Machine {
	m := machine()
	m.Notify = true
	return m
}

func notifyingOptions() bwrap.Options {
	o := options()
	o.Parts.Notify = []byte("notify")
	return o
}

func layerState(p *plan.Plan, name string) string {
	i := slices.IndexFunc(p.Layers, func(l plan.Layer) bool { return l.Name == name })
	if i < 0 {
		return "missing"
	}
	return p.Layers[i].State
}

// Which filters a launch has, by the policy and the machine.
func TestMediation(t *testing.T) {
	t.Parallel()
	noLandlock, noDiag := notifying(), notifying()
	noLandlock.LandlockABI, noDiag.SocketsWhy = 1, "no unix_diag"
	for name, tc := range map[string]struct {
		in     bwrap.Input
		m      bwrap.Machine
		mode   string
		notify bool
	}{
		"by default":      {bwrap.Input{}, notifying(), "listed", true},
		"no notification": {bwrap.Input{}, machine(), "base", false},
		"no Landlock":     {bwrap.Input{}, noLandlock, "base", false},
		"no unix_diag":    {bwrap.Input{}, noDiag, "base", false},
		"all sockets":     {bwrap.Input{UnixSockets: policy.SocketsAll}, notifying(), "unix", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := bwrap.TranslateInput(tc.in, tc.m, notifyingOptions())
			must(t, err)
			if l.Plan.Filter.Mode != tc.mode || (len(l.Setup.Filter) > 0) != tc.notify || (l.Plan.Filter.Notify != "") != tc.notify {
				t.Errorf("mode %q, second filter %q, in the plan %q", l.Plan.Filter.Mode, l.Setup.Filter, l.Plan.Filter.Notify)
			}
			if on := layerState(l.Plan, "seccomp_notify") == "on"; on != tc.notify {
				t.Errorf("the layer is %q", layerState(l.Plan, "seccomp_notify"))
			}
			tc.in.Require = []string{"seccomp_notify"}
			if _, err := bwrap.TranslateInput(tc.in, tc.m, notifyingOptions()); (err == nil) != tc.notify {
				t.Errorf("required: %v", err)
			}
		})
	}
}

func TestListedSockets(t *testing.T) {
	t.Parallel()
	in := bwrap.Input{
		Sockets: []guard.Socket{
			{Path: "/run/a", ID: guard.FileID{Dev: 1, Ino: 2}, Rule: guard.Rule{Text: "/run/a"}},
			{Path: "/w/b", ID: guard.FileID{Dev: 3, Ino: 4}, Rule: guard.Rule{Text: "{workspace}/b"}},
		},
		Writable: func(p string) bool { return p == "/w/b" },
	}
	l, err := bwrap.TranslateInput(in, notifying(), notifyingOptions())
	must(t, err)
	want := []notify.Socket{
		{Path: "/run/a", Dev: 1, Ino: 2, Rule: "/run/a", Fixed: true},
		{Path: "/w/b", Dev: 3, Ino: 4, Rule: "{workspace}/b"},
	}
	if diff := cmp.Diff(want, l.Sockets); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]wire.Socket{{Domain: 16, Type: 3, Protocol: 4}}, l.Setup.Sockets); diff != "" {
		t.Error(diff)
	}
	var r *policy.Refusal
	if _, err := bwrap.TranslateInput(in, machine(), notifyingOptions()); !errors.As(err, &r) || r.Reason != policy.Unavailable || r.Subject != "sockets" {
		t.Errorf("without notification: %v", err)
	}
}
