package doctor_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"pinfold/doctor"
	"pinfold/policy"
)

var update = flag.Bool("update", false, "rewrite golden files")

// fixture is a machine in a file.
func fixture(t *testing.T, name string) fstest.MapFS {
	t.Helper()
	a, err := txtar.ParseFile(filepath.Join("testdata/hosts", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	fs := fstest.MapFS{}
	for _, f := range a.Files {
		fs[f.Name] = &fstest.MapFile{Data: f.Data, Mode: 0o644}
	}
	return fs
}

// probe is a kernel and a bubblewrap that answer as told.
type probe struct {
	missing  map[string]bool // system calls and namespaces
	broken   map[string]error
	landlock int
	bwrap    doctor.Bubblewrap
	bwrapErr error
	launch   error
}

func (p probe) Syscall(name string) error {
	if p.missing[name] {
		return doctor.ErrNotThere
	}
	return p.broken[name]
}

func (p probe) LandlockABI() (int, error) { return p.landlock, p.broken["landlock"] }

func (p probe) Bubblewrap(context.Context) (doctor.Bubblewrap, error) { return p.bwrap, p.bwrapErr }

func (p probe) Namespaces(_ context.Context, kinds ...string) error {
	for _, k := range kinds {
		if p.missing[k] {
			return doctor.ErrNotThere
		}
		if err := p.broken[k]; err != nil {
			return err
		}
	}
	return nil
}

func (p probe) Launch(context.Context, string) error { return p.launch }

func good() probe {
	return probe{landlock: 6, bwrap: doctor.Bubblewrap{Path: "/usr/bin/bwrap", Version: [3]int{0, 8, 0}}}
}

// TestFixtures: what doctor says of each machine, by facts alone and with the
// kernel's answer that goes with them.
func TestFixtures(t *testing.T) {
	t.Parallel()
	noUserns := good()
	noUserns.missing = map[string]bool{"user": true}
	noUserns.launch = &policy.Refusal{Reason: policy.Unavailable, Code: "bwrap_failed", Why: "cannot start the sandbox", Fix: "pinfold doctor"}
	masked := good()
	masked.missing = map[string]bool{"proc": true}
	masked.launch = noUserns.launch
	noBwrap := good()
	noBwrap.bwrapErr = doctor.ErrNotThere
	for _, c := range []struct {
		name, host string
		uid        int
		arch       string
		p          doctor.Prober
		verdict    doctor.Status
	}{
		{"debian12", "debian12", 1000, "amd64", good(), doctor.OK},
		{"debian12-no-bwrap", "debian12", 1000, "amd64", noBwrap, doctor.Fail},
		{"ubuntu2404", "ubuntu2404", 1000, "amd64", noUserns, doctor.Fail},
		{"ubuntu2404-root", "ubuntu2404", 0, "amd64", good(), doctor.OK},
		{"ubuntu2404-profile", "ubuntu2404-profile", 1000, "amd64", noUserns, doctor.Fail},
		{"rhel9", "rhel9", 1000, "amd64", noUserns, doctor.Fail},
		{"wsl2", "wsl2", 1000, "amd64", good(), doctor.Warn},
		{"docker-default", "docker-default", 0, "amd64", noUserns, doctor.Fail},
		{"docker-privileged", "docker-default", 0, "amd64", good(), doctor.Warn},
		{"podman-rootless", "podman-rootless", 0, "amd64", masked, doctor.Fail},
		{"gvisor", "gvisor", 0, "amd64", noUserns, doctor.Fail},
		{"arm64-board", "arm64-board", 1000, "arm64", noUserns, doctor.Fail},
		{"riscv", "debian12", 1000, "riscv64", good(), doctor.Fail},
		{"arch", "arch", 1000, "amd64", noUserns, doctor.Fail},
		{"opensuse", "opensuse-tumbleweed", 1000, "amd64", noBwrap, doctor.Fail},
		{"nixos", "nixos", 1000, "amd64", noBwrap, doctor.Fail},
		{"derivative", "hardened", 1000, "amd64", noBwrap, doctor.Fail},
		{"facts-only", "debian12", 1000, "amd64", nil, doctor.Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := &doctor.Host{Root: fixture(t, c.host), UID: c.uid, Arch: c.arch, Probe: c.p, State: "/home/ann/.local/state/pinfold"}
			rows := doctor.Run(t.Context(), h, doctor.Checks())
			if got := doctor.Verdict(rows); got != c.verdict {
				t.Errorf("verdict %s, want %s", got, c.verdict)
			}
			var b bytes.Buffer
			if err := doctor.Text(&b, rows, false); err != nil {
				t.Fatal(err)
			}
			golden(t, c.name, b.Bytes())
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("(-golden +got; rewrite with -update):\n%s", d)
	}
}

// TestRows asks for single rows in states that no fixture has.
func TestRows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		row    string
		mutate func(*doctor.Host, *probe)
		status doctor.Status
		code   string
	}{
		"bwrap too old":     {"bubblewrap", func(_ *doctor.Host, p *probe) { p.bwrap.Version = [3]int{0, 7, 1} }, doctor.Fail, "bwrap_too_old"},
		"bwrap newer":       {"bubblewrap", func(_ *doctor.Host, p *probe) { p.bwrap.Version = [3]int{0, 14, 0} }, doctor.Warn, "bwrap_untested"},
		"bwrap setuid":      {"bubblewrap", func(_ *doctor.Host, p *probe) { p.bwrap.Setuid = true }, doctor.Warn, "bwrap_setuid"},
		"bwrap unclear":     {"bubblewrap", func(_ *doctor.Host, p *probe) { p.bwrapErr = errors.New("it hung") }, doctor.Unknown, "bwrap_missing"},
		"bwrap refused":     {"bubblewrap", func(_ *doctor.Host, p *probe) { p.bwrapErr = &policy.Refusal{Code: "bwrap_writable", Fix: "x"} }, doctor.Fail, "bwrap_writable"},
		"one namespace":     {"namespaces", func(_ *doctor.Host, p *probe) { p.missing = map[string]bool{"net": true} }, doctor.Fail, "namespace_refused"},
		"userns unclear":    {"user namespaces", func(_ *doctor.Host, p *probe) { p.broken = map[string]error{"user": errors.New("timeout")} }, doctor.Unknown, "userns_unknown"},
		"no openat2":        {"system calls", func(_ *doctor.Host, p *probe) { p.missing = map[string]bool{"openat2": true} }, doctor.Fail, "syscall_missing"},
		"no notification":   {"system calls", func(_ *doctor.Host, p *probe) { p.missing = map[string]bool{"seccomp_user_notif": true} }, doctor.Warn, "syscall_optional_missing"},
		"call unclear":      {"system calls", func(_ *doctor.Host, p *probe) { p.broken = map[string]error{"openat2": errors.New("EIO")} }, doctor.Unknown, "syscalls_unknown"},
		"no landlock":       {"landlock", func(_ *doctor.Host, p *probe) { p.landlock = 0 }, doctor.Warn, "landlock_missing"},
		"landlock 1":        {"landlock", func(_ *doctor.Host, p *probe) { p.landlock = 1 }, doctor.Warn, "landlock_old"},
		"landlock unclear":  {"landlock", func(_ *doctor.Host, p *probe) { p.broken = map[string]error{"landlock": errors.New("EIO")} }, doctor.Unknown, "landlock_unknown"},
		"state is a file":   {"state directory", func(h *doctor.Host, _ *probe) { h.State = "/etc/os-release" }, doctor.Fail, "state_not_directory"},
		"state not named":   {"state directory", func(h *doctor.Host, _ *probe) { h.State = "" }, doctor.Unknown, "state_unknown"},
		"untrusted policy":  {"policy files", func(h *doctor.Host, _ *probe) { h.Policies = []doctor.PolicyFound{{Path: "/w/.pinfold.json"}} }, doctor.Warn, "policy_untrusted"},
		"launch unclear":    {"launch: grants", func(_ *doctor.Host, p *probe) { p.launch = errors.New("timeout") }, doctor.Unknown, "launch_failed"},
		"launch refused":    {"launch: empty policy", func(_ *doctor.Host, p *probe) { p.launch = &policy.Refusal{Code: "bwrap_failed"} }, doctor.Fail, "bwrap_failed"},
		"kernel unreadable": {"kernel", func(h *doctor.Host, _ *probe) { h.Root = fstest.MapFS{} }, doctor.Unknown, "kernel_unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := good()
			h := &doctor.Host{Root: fixture(t, "debian12"), UID: 1000, Arch: "amd64", State: "/home/ann/.local/state/pinfold"}
			c.mutate(h, &p)
			h.Probe = p
			for _, r := range doctor.Run(t.Context(), h, doctor.Checks()) {
				if r.Name == c.row && (r.Status != c.status || r.Code != c.code) {
					t.Errorf("got %s %s (%s)", r.Status, r.Code, r.Seen)
				}
			}
		})
	}
}

func TestJSONAndFixes(t *testing.T) {
	t.Parallel()
	rows := []doctor.Result{
		{Name: "a", Status: doctor.OK, Code: "ok", Seen: "fine"},
		{Name: "b", Status: doctor.Fail, Code: "x", Seen: "bad\nthing", Fix: "do this\ndo that"},
		{Name: "c", Status: doctor.Fail, Code: "y", Seen: "same", Fix: "do this\ndo that"},
	}
	var b bytes.Buffer
	if err := doctor.JSON(&b, rows); err != nil {
		t.Fatal(err)
	}
	var report doctor.Report
	if err := json.Unmarshal(b.Bytes(), &report); err != nil || report.Verdict != doctor.Fail || len(report.Rows) != 3 {
		t.Errorf("%v %+v", err, report)
	}
	b.Reset()
	if err := doctor.Fixes(&b, rows); err != nil {
		t.Fatal(err)
	}
	if want := "# b: bad thing\ndo this\ndo that\n"; b.String() != want {
		t.Errorf("got %q", b.String())
	}
	b.Reset()
	if err := doctor.Text(&b, rows, true); err != nil || !strings.Contains(b.String(), "\x1b[31m") {
		t.Errorf("no colour: %q", b.String())
	}
}
