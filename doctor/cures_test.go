package doctor_test

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"pinfold/doctor"
)

// A switch can't bring what the kernel hasn't got: the cure for a missing
// Landlock is a newer one where it is older than that.
func TestLandlockCure(t *testing.T) {
	t.Parallel()
	for release, want := range map[string]string{
		"5.10.0-43-amd64": "upgrade the kernel to 5.19 or newer",
		"5.18.3":          "upgrade the kernel to 5.19 or newer",
		"5.19.0":          "lsm=landlock,",
		"6.1.0-57-amd64":  "lsm=landlock,",
		"unreadable":      "lsm=landlock,",
	} {
		p := good()
		p.landlock = 0
		h := &doctor.Host{Root: fixture(t, "debian12"), UID: 1000, Arch: "amd64", State: "/home/ann/.local/state/pinfold"}
		file("proc/sys/kernel/osrelease", release)(h, &p)
		h.Probe = p
		if r := row(t, h, "landlock"); r.Code != "landlock_missing" || !strings.Contains(r.Fix, want) {
			t.Errorf("%s: got %s %q, wanted %q", release, r.Code, r.Fix, want)
		}
	}
}

// With Yama's 3 no kernel helps, but a boot without it.
func TestEgressCureWithYama(t *testing.T) {
	t.Parallel()
	p := good()
	p.answered = errors.New("Yama's ptrace_scope is 3")
	h := &doctor.Host{Root: fixture(t, "debian12"), UID: 1000, Arch: "amd64", State: "/home/ann/.local/state/pinfold"}
	file("proc/sys/kernel/yama/ptrace_scope", "3")(h, &p)
	h.Probe = p
	if r := row(t, h, "egress"); r.Code != "egress_proxy_only" || !strings.Contains(r.Fix, "ptrace_scope=2") {
		t.Errorf("got %s %q", r.Code, r.Fix)
	}
}

// Debian's switch is in force for root too: bubblewrap's second namespace is
// made by somebody who is root of the first alone.
func TestUsernsCloneOffAsRoot(t *testing.T) {
	t.Parallel()
	p := good()
	p.missing = map[string]bool{"user": true}
	h := &doctor.Host{Root: fixture(t, "debian12"), UID: 0, Arch: "amd64", State: "/root/.local/state/pinfold"}
	file("proc/sys/kernel/unprivileged_userns_clone", "0")(h, &p)
	file("proc/self/status", "CapEff:\t000001ffffffffff")(h, &p)
	h.Probe = p
	if r := row(t, h, "user namespaces"); r.Code != "userns_clone_off" || !strings.Contains(r.Fix, "unprivileged_userns_clone=1") {
		t.Errorf("got %s %q", r.Code, r.Fix)
	}
}

func row(t *testing.T, h *doctor.Host, name string) doctor.Result {
	t.Helper()
	rows := doctor.Run(t.Context(), h, doctor.Checks())
	i := slices.IndexFunc(rows, func(r doctor.Result) bool { return r.Name == name })
	if i < 0 {
		t.Fatalf("no row %q", name)
	}
	return rows[i]
}

// TestCuresForRoot: root types no sudo, and where there is none the commands
// are said to be root's.
func TestCuresForRoot(t *testing.T) {
	t.Parallel()
	const install, profile = "apt-get update && apt-get install -y bubblewrap", "| tee /etc/apparmor.d/bwrap\napparmor_parser -r"
	missing, refused := good(), good()
	missing.bwrapErr = unavailable("bwrap_missing", "cannot find bubblewrap: no bwrap on the PATH", "install it")
	refused.missing = map[string]bool{"user": true}
	for name, c := range map[string]struct {
		host  string
		row   string
		uid   int
		sudo  bool
		probe probe
		want  string
	}{
		"root":                 {"debian12", "bubblewrap", 0, true, missing, install},
		"a user with sudo":     {"debian12", "bubblewrap", 1000, true, missing, "sudo apt-get update && sudo apt-get install -y bubblewrap"},
		"a user without":       {"debian12", "bubblewrap", 1000, false, missing, "# as root:\n" + install},
		"a pipe":               {"ubuntu2404", "user namespaces", 1000, false, refused, profile},
		"what needs no sudo":   {"nixos", "bubblewrap", 1000, false, missing, "nix-env -iA nixos.bubblewrap"},
		"typed somewhere else": {"docker-ubuntu2404", "user namespaces", 0, false, refused, "on the host: printf"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := fixture(t, c.host)
			if !c.sudo {
				delete(root, "usr/bin/sudo")
			}
			h := &doctor.Host{Root: root, UID: c.uid, Arch: "amd64", Probe: c.probe, State: "/home/ann/.local/state/pinfold", Path: []string{"/usr/bin"}}
			if got := row(t, h, c.row).Fix; !strings.Contains(got, c.want) || c.uid == 0 && strings.HasPrefix(got, "sudo") {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestCureKeepsNames: a name that holds the word is the name it was.
func TestCureKeepsNames(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]string{
		"/home/ann/a sudo b":    "# as root:\nmv '/home/ann/a sudo b' '/home/ann/a sudo b.foreign'",
		"/home/ann/it's sudo b": "# as root:\nmv '/home/ann/it'\\''s sudo b' '/home/ann/it'\\''s sudo b.foreign'",
	} {
		p := good()
		p.disk.Owner = 1001
		root := fixture(t, "debian12")
		delete(root, "usr/bin/sudo")
		mode(state[1:], 0o700|fs.ModeDir)(&doctor.Host{Root: root}, nil)
		h := &doctor.Host{Root: root, UID: 1000, Arch: "amd64", Probe: p, State: state, Path: []string{"/usr/bin"}}
		if got := row(t, h, "state directory").Fix; got != want {
			t.Errorf("got %q\nwant %q", got, want)
		}
	}
}

// TestNoPath: what is installed needn't be installed again.
func TestNoPath(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path      []string
		seen, fix string
	}{
		"unset":     {nil, "PATH is unset or empty", "export PATH=/usr/local/sbin:"},
		"elsewhere": {[]string{"/opt/bin"}, "there is one in /usr/bin", `export PATH="$PATH:/usr/bin"`},
	} {
		p := good()
		p.bwrapErr = unavailable("bwrap_missing", "cannot find bubblewrap: no bwrap on the PATH", "install it")
		h := &doctor.Host{Root: fixture(t, "debian12"), UID: 1000, Arch: "amd64", Probe: p, State: "/home/ann/.local/state/pinfold", Path: c.path}
		mode("usr/bin/bwrap", 0o755)(h, nil)
		if r := row(t, h, "bubblewrap"); r.Code != "bwrap_missing" || !strings.Contains(r.Seen, c.seen) || !strings.HasPrefix(r.Fix, c.fix) {
			t.Errorf("%s: got %+v", name, r)
		}
	}
}
