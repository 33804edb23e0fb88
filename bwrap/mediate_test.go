package bwrap_test

import (
	"errors"
	"slices"
	"strings"
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

// How what is allowed gets out, by network.mode and the machine.
func TestWaysOut(t *testing.T) {
	t.Parallel()
	host, err := policy.ParseHostPattern("api.example")
	must(t, err)
	allow := []policy.HostPattern{host}
	for name, tc := range map[string]struct {
		n                  policy.Network
		m                  bwrap.Machine
		proxy, transparent bool
	}{
		"auto":              {policy.Network{Allow: allow}, notifying(), true, true},
		"auto, no notify":   {policy.Network{Allow: allow}, machine(), true, false},
		"proxy":             {policy.Network{Allow: allow, Mode: policy.ModeProxy}, notifying(), true, false},
		"transparent":       {policy.Network{Allow: allow, Mode: policy.ModeTransparent}, notifying(), false, true},
		"nothing allowed":   {policy.Network{}, notifying(), false, false},
		"nothing, by name":  {policy.Network{Mode: policy.ModeTransparent}, notifying(), false, false},
		"auto, all sockets": {policy.Network{Allow: allow}, notifying(), true, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := bwrap.Input{Network: tc.n}
			if name == "auto, all sockets" {
				in.UnixSockets = policy.SocketsAll
			}
			l, err := bwrap.TranslateInput(in, tc.m, notifyingOptions())
			must(t, err)
			variable := slices.ContainsFunc(l.Setup.Env, func(v string) bool { return strings.HasPrefix(v, "HTTP_PROXY=") })
			if l.Transparent != tc.transparent || (l.Proxy != "") != tc.proxy || variable != tc.proxy {
				t.Errorf("transparent %v, proxy %q, variables %q", l.Transparent, l.Proxy, l.Setup.Env)
			}
			if l.Transparent && len(l.Setup.Filter) == 0 {
				t.Error("nothing is handed over")
			}
		})
	}
}

// A launch's own name files lie where the host's links lead, even into a
// directory that a rule hides.
func TestNameFiles(t *testing.T) {
	t.Parallel()
	host, err := policy.ParseHostPattern("api.example")
	must(t, err)
	m := notifying()
	m.Resolv, m.Hosts, m.Hostname = "/run/systemd/resolve/stub-resolv.conf", "/etc/hosts", "box"
	in := bwrap.Input{
		Network: policy.Network{Allow: []policy.HostPattern{host}},
		Entries: []guard.Entry{at("/run/systemd/resolve", guard.Empty, guard.Dir, 9)},
	}
	l, err := bwrap.TranslateInput(in, m, notifyingOptions())
	must(t, err)
	got := map[string]wire.CheckKind{}
	for _, c := range l.Setup.Checks {
		got[c.Path] = c.Kind
	}
	for p, want := range map[string]wire.CheckKind{
		m.Resolv: wire.CheckEmptyFile, "/etc/hosts": wire.CheckEmptyFile, "/run/systemd/resolve": wire.CheckPassDir,
	} {
		if got[p] != want {
			t.Errorf("%s: check %d, wanted %d", p, got[p], want)
		}
	}
	contents := map[string]bool{}
	for _, d := range l.Data {
		contents[string(d.Content)] = true
	}
	for _, want := range []string{
		"nameserver 127.0.0.1\noptions attempts:1\n",
		"127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n127.0.0.1 box\n",
	} {
		if !contents[want] {
			t.Errorf("no file holds %q", want)
		}
	}
}
