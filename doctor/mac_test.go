package doctor_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/fstest"

	"pinfold/doctor"
	"pinfold/policy"
)

// fakeMac answers as a Mac would.
type fakeMac struct {
	version, sip             string
	translated, admin        bool
	missing, nested, refused error
}

func (m fakeMac) Version() (string, error)                  { return m.version, nil }
func (m fakeMac) Translated() (bool, error)                 { return m.translated, nil }
func (m fakeMac) SandboxExec() error                        { return m.missing }
func (m fakeMac) Apply(context.Context) error               { return m.nested }
func (m fakeMac) Integrity(context.Context) (string, error) { return m.sip, nil }
func (m fakeMac) Admin() (bool, error)                      { return m.admin, nil }
func (m fakeMac) Launch(context.Context, string) error      { return m.refused }

func TestMacRows(t *testing.T) {
	t.Parallel()
	good := fakeMac{version: "15.1", sip: "System Integrity Protection status: enabled.", admin: true}
	with := func(change func(*fakeMac)) fakeMac {
		m := good
		change(&m)
		return m
	}
	refusal := &policy.Refusal{Reason: policy.Unavailable, Code: "boundary_open", Why: "cannot run the command: x"}
	for name, c := range map[string]struct {
		mac     fakeMac
		row     string
		code    string
		verdict doctor.Status
	}{
		"good":       {good, "launch: grants", "ok", doctor.Warn}, // untested
		"untested":   {good, "system", "mac_untested", doctor.Warn},
		"old":        {with(func(m *fakeMac) { m.version = "12.7" }), "system", "mac_old", doctor.Warn},
		"odd":        {with(func(m *fakeMac) { m.version = "x" }), "system", "mac_unknown", doctor.Warn},
		"rosetta":    {with(func(m *fakeMac) { m.translated = true }), "architecture", "mac_translated", doctor.Warn},
		"no program": {with(func(m *fakeMac) { m.missing, m.refused = doctor.ErrNotThere, refusal }), "sandbox-exec", "sandbox_exec_missing", doctor.Fail},
		"nested":     {with(func(m *fakeMac) { m.nested, m.refused = errors.New("EPERM"), refusal }), "profiles", "sandbox_exec_failed", doctor.Fail},
		"no SIP":     {with(func(m *fakeMac) { m.sip = "System Integrity Protection status: disabled." }), "system integrity", "sip_disabled", doctor.Warn},
		"no admin":   {with(func(m *fakeMac) { m.admin = false }), "system log", "log_unreadable", doctor.Warn},
		"refused":    {with(func(m *fakeMac) { m.refused = refusal }), "launch: empty policy", "boundary_open", doctor.Fail},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &doctor.Host{Root: fstest.MapFS{}, Arch: "arm64", State: "/Users/ann/state", Mac: c.mac}
			rows := doctor.Run(t.Context(), h, doctor.MacChecks())
			for _, r := range rows {
				if r.Name == c.row && r.Code != c.code {
					t.Errorf("%s: got %+v, want %s", c.row, r, c.code)
				}
			}
			if got := doctor.Verdict(rows); got != c.verdict {
				t.Errorf("the verdict is %s, want %s: %+v", got, c.verdict, rows)
			}
		})
	}
}

// TestMacGolden: what a Mac's rows look like.
func TestMacGolden(t *testing.T) {
	t.Parallel()
	good := fakeMac{version: "15.1", sip: "System Integrity Protection status: enabled.", admin: true}
	missing := good
	missing.missing, missing.admin = doctor.ErrNotThere, false
	missing.refused = unavailable("sandbox_exec_missing", "cannot find /usr/bin/sandbox-exec", "use a Mac")
	for name, m := range map[string]fakeMac{"mac": good, "mac-no-sandbox-exec": missing} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &doctor.Host{Root: fstest.MapFS{}, Arch: "arm64", State: "/Users/ann/state", Mac: m}
			var b bytes.Buffer
			if err := doctor.Text(&b, doctor.Run(t.Context(), h, doctor.MacChecks()), false); err != nil {
				t.Fatal(err)
			}
			golden(t, name, b.Bytes())
		})
	}
}

func TestMacNotAsked(t *testing.T) {
	t.Parallel()
	rows := doctor.Run(t.Context(), &doctor.Host{Root: fstest.MapFS{}}, doctor.MacChecks())
	if rows[0].Status != doctor.Unknown {
		t.Errorf("got %+v", rows[0])
	}
}
