package doctor_test

import (
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
		rows := doctor.Run(t.Context(), h, doctor.Checks())
		i := slices.IndexFunc(rows, func(r doctor.Result) bool { return r.Name == "landlock" })
		if r := rows[i]; r.Code != "landlock_missing" || !strings.Contains(r.Fix, want) {
			t.Errorf("%s: got %s %q, wanted %q", release, r.Code, r.Fix, want)
		}
	}
}
