package doctor_test

import (
	"errors"
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
