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

	"pinfold/container/engine"
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
	root := fstest.MapFS{"usr/bin/sudo": {Mode: 0o755}}
	for _, f := range a.Files {
		root[f.Name] = &fstest.MapFile{Data: f.Data, Mode: 0o644}
	}
	return root
}

// probe is a kernel and a bubblewrap that answer as told.
type probe struct {
	missing  map[string]bool // system calls and namespaces
	broken   map[string]error
	landlock int
	bwrap    doctor.Bubblewrap
	bwrapErr error
	launch   error
	sockets  error // of a launch with a socket
	answered error
	told     error
	limits   error
	disk     doctor.Disk
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

func (p probe) Launch(_ context.Context, document string) error {
	if p.sockets != nil && strings.Contains(document, "sockets") {
		return p.sockets
	}
	if p.limits != nil && strings.Contains(document, "limits") {
		return p.limits
	}
	return p.launch
}

func (p probe) LaunchFile(context.Context, string) error { return p.launch }

func (p probe) Connections() (answered, told error) { return p.answered, p.told }

func (p probe) Limits() error { return nil }

func (p probe) Disk(string) (doctor.Disk, error) { return p.disk, p.broken["disk"] }

func good() probe {
	return probe{
		landlock: 6, bwrap: doctor.Bubblewrap{Path: "/usr/bin/bwrap", Version: [3]int{0, 8, 0}},
		disk: doctor.Disk{Writable: true, Free: 1 << 40},
	}
}

// unavailable is what wrap answers.
func unavailable(code, why, fix string) *policy.Refusal {
	return &policy.Refusal{Reason: policy.Unavailable, Code: code, Why: why, Fix: fix}
}

// refusedLimits, as an ordinary user without systemd has it.
func refusedLimits() error {
	return unavailable("limit_unavailable", "cannot enforce limits.cpus: no cgroup is delegated to this user", "name one with --cgroup PATH")
}

// TestFixtures: what doctor says of each machine, by facts alone and with the
// kernel's answer that goes with them.
func TestFixtures(t *testing.T) {
	t.Parallel()
	noUserns := good()
	noUserns.missing = map[string]bool{"user": true}
	noUserns.launch = unavailable("bwrap_failed", "cannot start the sandbox", "pinfold doctor")
	filtered := noUserns
	filtered.missing = map[string]bool{"user": true, "unshare": true, "clone": true, "mount": true, "pidfd_getfd": true}
	masked := good()
	masked.missing = map[string]bool{"proc": true}
	masked.launch = noUserns.launch
	noBwrap := good()
	noBwrap.bwrapErr = unavailable("bwrap_missing", "cannot find bubblewrap: no bwrap on the PATH", "install it")
	noBwrap.launch = noBwrap.bwrapErr
	old := good()
	old.bwrap.Version = [3]int{0, 6, 1}
	old.launch = unavailable("bwrap_too_old", "cannot use bubblewrap", "install a newer one")
	noParts := good()
	noParts.launch = unavailable("part_missing", "cannot start the sandbox: this build carries no stub for riscv64", "make build")
	alpine := good()
	alpine.limits = refusedLimits()
	board := good()
	board.landlock = 0
	board.sockets = &policy.Refusal{Reason: policy.Unavailable, Code: "field_unavailable", Subject: "sockets", Why: "cannot enforce sockets: the kernel has Landlock ABI 0, wanted 2", Fix: `use "unix_sockets": "all"`}
	wsl1 := noUserns
	wsl1.landlock, wsl1.answered = 0, errors.New("the kernel has no seccomp user notification: function not implemented")
	wsl1.missing = map[string]bool{"user": true, "openat2": true, "pidfd_open": true, "pidfd_getfd": true, "close_range": true, "seccomp_errno": true, "seccomp_kill_process": true, "seccomp_user_notif": true}
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
		{"rhel9-no-bwrap", "rhel9", 1000, "amd64", noBwrap, doctor.Fail},
		{"arch-no-bwrap", "arch", 1000, "amd64", noBwrap, doctor.Fail},
		{"wsl2-no-bwrap", "wsl2", 1000, "amd64", noBwrap, doctor.Fail},
		{"ubuntu2404-no-bwrap", "ubuntu2404", 1000, "amd64", noBwrap, doctor.Fail},
		{"wsl2", "wsl2", 1000, "amd64", good(), doctor.OK},
		{"docker-default", "docker-default", 0, "amd64", filtered, doctor.Fail},
		{"docker-ubuntu2404", "docker-ubuntu2404", 0, "amd64", filtered, doctor.Fail},
		{"docker-no-caps", "docker-no-caps", 0, "amd64", noUserns, doctor.Fail},
		{"docker-facts", "docker-default", 0, "amd64", nil, doctor.Fail},
		{"docker-privileged", "docker-default", 0, "amd64", good(), doctor.Warn},
		{"podman-rootless", "podman-rootless", 0, "amd64", masked, doctor.Fail},
		{"gvisor", "gvisor", 0, "amd64", noUserns, doctor.Fail},
		{"arm64-board", "arm64-board", 1000, "arm64", noUserns, doctor.Fail},
		{"riscv", "debian12", 1000, "riscv64", noParts, doctor.Fail},
		{"arch", "arch", 1000, "amd64", noUserns, doctor.Fail},
		{"ubuntu2204-old-bwrap", "ubuntu2204", 1000, "amd64", old, doctor.Fail},
		{"opensuse", "opensuse-tumbleweed", 1000, "amd64", noBwrap, doctor.Fail},
		{"opensuse-leap", "opensuse-leap", 1000, "amd64", good(), doctor.OK},
		{"opensuse-leap-no-bwrap", "opensuse-leap", 1000, "amd64", noBwrap, doctor.Fail},
		{"alpine", "alpine", 1000, "amd64", alpine, doctor.Warn},
		{"alpine-no-bwrap", "alpine", 1000, "amd64", noBwrap, doctor.Fail},
		{"nixos-bwrap", "nixos-bwrap", 1000, "amd64", good(), doctor.OK},
		{"wsl1", "wsl1", 1000, "amd64", wsl1, doctor.Fail},
		{"arm64-board-ok", "arm64-board-ok", 1000, "arm64", board, doctor.Warn},
		{"nixos", "nixos", 1000, "amd64", noBwrap, doctor.Fail},
		{"derivative", "hardened", 1000, "amd64", noBwrap, doctor.Fail},
		{"facts-only", "debian12", 1000, "amd64", nil, doctor.Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := &doctor.Host{Root: fixture(t, c.host), UID: c.uid, Arch: c.arch, Probe: c.p, State: "/home/ann/.local/state/pinfold", Path: []string{"/usr/bin"}}
			if p, isFake := c.p.(probe); isFake {
				p.disk.Owner = c.uid
				h.Probe = p
			}
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

// nowhere is a choice of engines that nobody answers for.
var nowhere = engine.Choice{Env: func(name string) string {
	return map[string]string{"DOCKER_HOST": "unix:///no/such/socket", "CONTAINER_HOST": "unix:///no/such/socket"}[name]
}}

// TestNoEngine: each row says what it knows, and the last one fails with the
// way out.
func TestNoEngine(t *testing.T) {
	t.Parallel()
	rows := doctor.Run(t.Context(), &doctor.Host{Root: fstest.MapFS{}, Probe: good()}, doctor.ContainerChecks(nowhere))
	want := map[string]doctor.Status{
		"docker": doctor.Warn, "podman": doctor.Warn, "engine": doctor.Fail, "engine user": doctor.Unknown,
		"container limits": doctor.Unknown, "container restarts": doctor.Unknown, "shared paths": doctor.Unknown, "hand-over": doctor.Unknown, "container tier": doctor.Fail,
	}
	var text strings.Builder
	if err := doctor.Text(&text, rows, false); err != nil || !strings.Contains(text.String(), "can't hold a container yet") {
		t.Errorf("%v: %s", err, text.String())
	}
	got := map[string]doctor.Status{}
	for _, r := range rows {
		got[r.Name] = r.Status
		if r.Name == "engine" && (r.Code != "no_engine" || !strings.Contains(r.Fix, "PINFOLD_DISABLE_CONTAINER")) {
			t.Errorf("%+v", r)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// TestVerdict: launches that were tried settle it.
func TestVerdict(t *testing.T) {
	t.Parallel()
	row := func(s doctor.Status) doctor.Check {
		return doctor.Check{Name: "row", Run: func(context.Context, *doctor.Host) doctor.Result { return doctor.Result{Status: s} }}
	}
	no, unclear := unavailable("bwrap_failed", "no", ""), errors.New("timeout")
	for name, c := range map[string]struct {
		rows    []doctor.Check
		launch  error
		verdict doctor.Status
	}{
		"no launch":                  {[]doctor.Check{row(doctor.OK), row(doctor.Fail), row(doctor.Unknown)}, nil, doctor.Fail},
		"all well":                   {[]doctor.Check{row(doctor.OK), doctor.Launch("l", "{}")}, nil, doctor.OK},
		"a launch beats a no":        {[]doctor.Check{row(doctor.Fail), doctor.Launch("l", "{}")}, nil, doctor.Warn},
		"a launch beats a maybe":     {[]doctor.Check{row(doctor.Unknown), doctor.Launch("l", "{}")}, nil, doctor.Warn},
		"a refusal beats a yes":      {[]doctor.Check{row(doctor.OK), doctor.Launch("l", "{}")}, no, doctor.Fail},
		"no launch that tells":       {[]doctor.Check{row(doctor.OK), doctor.Launch("l", "{}")}, unclear, doctor.Unknown},
		"no launch that tells, a no": {[]doctor.Check{row(doctor.Fail), doctor.Launch("l", "{}")}, unclear, doctor.Fail},
		"a requirement":              {doctor.Requirements([]string{"landlock"}), unavailable("requirement_unmet", "no", ""), doctor.Fail},
		"the container tier":         {doctor.ContainerChecks(nowhere), nil, doctor.Fail},
		"a policy file":              {[]doctor.Check{doctor.LaunchFile("l", "p.json")}, no, doctor.Fail},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := good()
			p.launch = c.launch
			if got := doctor.Verdict(doctor.Run(t.Context(), &doctor.Host{Root: fstest.MapFS{}, Probe: p}, c.rows)); got != c.verdict {
				t.Errorf("got %s, want %s", got, c.verdict)
			}
		})
	}
}

// TestExplain: the first row that fails and that a launch needs.
func TestExplain(t *testing.T) {
	t.Parallel()
	p := good()
	p.missing = map[string]bool{"user": true, "openat2": true}
	for _, c := range []struct {
		likely []string
		want   string
	}{
		{nil, "apparmor_userns"}, {[]string{"no_such_row"}, "apparmor_userns"}, {[]string{"syscall_missing"}, "syscall_missing"},
	} {
		h := &doctor.Host{Root: fixture(t, "ubuntu2404"), UID: 1000, Arch: "amd64", Probe: p}
		if r, found := doctor.Explain(t.Context(), h, c.likely...); !found || r.Code != c.want || r.Name == "" || r.Fix == "" {
			t.Errorf("%q: got %+v, %v", c.likely, r, found)
		}
	}
	h := &doctor.Host{Root: fixture(t, "debian12"), UID: 1000, Arch: "amd64", Probe: good()}
	if r, found := doctor.Explain(t.Context(), h); found {
		t.Errorf("nothing is wrong, got %+v", r)
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

// TestPrintedNamesAreSafe: what a stranger chose to call a directory neither
// reaches the terminal as it is, nor becomes a line for a shell.
func TestPrintedNamesAreSafe(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"e\x1b[31m", "two\nrm -rf x", "\u009b2J", "right\u202eleft", "a;touch x"} {
		h := &doctor.Host{
			Root: fixture(t, "debian12"), UID: 1000, Arch: "amd64", Probe: good(), State: "/home/" + name,
			Policies: []doctor.PolicyFound{{Path: "/w/" + name + "/.pinfold.json"}},
		}
		changed := &policy.Refusal{Code: "policy_changed", Why: "changed: " + name, Fix: "read it and run 'pinfold trust " + name + "'"}
		rows := doctor.Run(t.Context(), h, doctor.Checks())
		rows = append(rows, doctor.Run(t.Context(), h, []doctor.Check{
			{Name: "launch: " + name, Run: func(context.Context, *doctor.Host) doctor.Result {
				return doctor.Result{Status: doctor.Fail, Seen: name, Fix: "mv " + policy.ShellQuote(name)}
			}},
		})...)
		h.Policies = append(h.Policies, doctor.PolicyFound{Path: "x", Err: changed})
		rows = append(rows, doctor.Run(t.Context(), h, doctor.Checks())...)
		var text, fixes bytes.Buffer
		if err := errors.Join(doctor.Text(&text, rows, false), doctor.Fixes(&fixes, rows)); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(text.String() + fixes.String()) {
			line = strings.TrimSuffix(line, "\n")
			if line != policy.Printable(line) || strings.HasPrefix(line, "rm ") {
				t.Errorf("%q: the line %q", name, line)
			}
		}
		if !strings.Contains(fixes.String(), "\npinfold trust "+policy.ShellQuote("/w/"+name+"/.pinfold.json")+"\n") {
			t.Errorf("%q can't be typed: %s", name, fixes.String())
		}
	}
}
