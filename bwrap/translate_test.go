package bwrap_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold/bwrap"
	"pinfold/guard"
	"pinfold/plan"
	"pinfold/policy"
	"pinfold/stub/wire"
)

var update = flag.Bool("update", false, "write the golden files anew")

// machine is a machine like a user's laptop; asRoot is the same for root.
func machine() bwrap.Machine {
	return bwrap.Machine{
		Bwrap: plan.Tool{Path: "/usr/bin/bwrap", Version: "0.8.0"}, Version: [3]int{0, 8, 0},
		Arch: "amd64", LandlockABI: 6, UID: 1000, GID: 1000,
		Root: guard.FileID{Dev: 1, Ino: 2}, Sys: guard.FileID{Dev: 3, Ino: 1},
		Private:      []string{"/tmp", "/var/tmp"},
		ProcMasks:    []bwrap.ProcEntry{{Path: "/proc/kcore"}, {Path: "/proc/keys"}},
		ProcReadOnly: []bwrap.ProcEntry{{Path: "/proc/sys", Dir: true, ID: guard.FileID{Dev: 4, Ino: 5}}},
	}
}

func asRoot() bwrap.Machine {
	m := machine()
	m.UID, m.GID, m.LandlockABI = 0, 0, 0
	m.ProcMasks = append(m.ProcMasks, bwrap.ProcEntry{Path: "/proc/acpi", Dir: true})
	m.Devices = []bwrap.ProcEntry{{Path: "/dev/null", ID: guard.FileID{Dev: 5, Ino: 7}}}
	m.ProcReadOnly = append(m.ProcReadOnly, bwrap.ProcEntry{Path: "/proc/mtrr", ID: guard.FileID{Dev: 4, Ino: 6}})
	return m
}

func options() bwrap.Options {
	return bwrap.Options{Umask: 0o022, Parts: &bwrap.Parts{Stub: []byte("stub"), Filter: []byte("filter")}}
}

// at makes an entry with a number for its inode.
func at(path string, access guard.Access, kind guard.Kind, ino uint64) guard.Entry {
	e := guard.Entry{Path: path, Access: access, Kind: kind, Rule: guard.Rule{Class: guard.ClassPolicy, Text: path, Source: "p.json:1:1 list[0]"}}
	if kind != guard.Missing {
		e.ID = guard.FileID{Dev: 1, Ino: ino}
	}
	return e
}

func passable(e guard.Entry) guard.Entry { e.Passable = true; return e }

func holding(e guard.Entry, s string) guard.Entry { e.Content = []byte(s); return e }

// goldenCase is one Grant and the machine that it is for.
type goldenCase struct {
	in bwrap.Input
	m  bwrap.Machine
}

func goldenCases() map[string]goldenCase {
	cases := map[string]bwrap.Input{
		"nothing": {},
		"workspace": {
			Entries: []guard.Entry{at("/w", guard.ReadWrite, guard.Dir, 10)},
			Argv:    []string{"make", "all"}, Dir: "/w", Env: []string{"HOME=/h", "PATH=/bin"},
		},
		"network": {
			Network: policy.Network{Allow: []policy.HostPattern{{Text: "github.com:443"}}, Deny: []policy.HostPattern{{Text: "*"}}},
			Env:     []string{"A=1", "HTTPS_PROXY=http://u:p@corp", "PATH=/bin", "no_proxy=x"},
		},
		"denies": {Entries: []guard.Entry{
			at("/h/.aws", guard.Empty, guard.Dir, 10),
			holding(at("/h/.docker/config.json", guard.Empty, guard.File, 11), "{}\n"),
			at("/h/.netrc", guard.Empty, guard.File, 12),
			at("/h/missing", guard.Deny, guard.Missing, 0),
			at("/h/secret", guard.Deny, guard.File, 13),
			at("/h/vault", guard.Deny, guard.Dir, 14),
			at("/run/docker.sock", guard.Empty, guard.Other, 15),
		}},
		"passable": {Entries: []guard.Entry{
			passable(at("/h", guard.Deny, guard.Dir, 10)),
			at("/h/a/b/known", guard.ReadOnly, guard.File, 11),
			at("/h/a/w", guard.ReadWrite, guard.Dir, 12),
			passable(at("/k", guard.Empty, guard.Dir, 13)),
			at("/k/known", guard.ReadOnly, guard.File, 14),
		}},
		"pins": {
			Entries: []guard.Entry{
				at("/w", guard.ReadWrite, guard.Dir, 10),
				at("/w/r/.git/config", guard.ReadOnly, guard.File, 11),
				at("/w/r/.git/hooks", guard.ReadOnly, guard.Dir, 12),
			},
			Pins: []guard.Pin{{Root: "/w", Path: "/w/r"}, {Root: "/w", Path: "/w/r/.git"}},
		},
		"nested-pins": {
			Entries: []guard.Entry{
				at("/w", guard.ReadWrite, guard.Dir, 10),
				at("/w/ro", guard.ReadOnly, guard.Dir, 11),
				at("/w/ro/rw", guard.ReadWrite, guard.Dir, 12),
				at("/w/ro/rw/a/deny", guard.Deny, guard.Dir, 13),
			},
			Pins: []guard.Pin{{Root: "/w/ro/rw", Path: "/w/ro/rw/a"}},
		},
		"missing": {
			Entries: []guard.Entry{
				at("/w", guard.ReadWrite, guard.Dir, 10),
				holding(at("/w/c.json", guard.Empty, guard.Missing, 0), "{}\n"),
				at("/w/here/gone", guard.Deny, guard.Missing, 0),
				at("/w/no/such/dir", guard.Deny, guard.Missing, 0),
				at("/w/vendor", guard.ReadOnly, guard.Missing, 0),
			},
			Pins: []guard.Pin{{Root: "/w", Path: "/w/here"}},
		},
		"files": {Entries: []guard.Entry{
			at("/h/known", guard.ReadOnly, guard.File, 10),
			at("/h/log", guard.ReadWrite, guard.File, 11),
			at("/h/sock", guard.ReadWrite, guard.Other, 12),
		}},
		"base-none": {
			Base: policy.BaseNone,
			Entries: []guard.Entry{
				at("/h/w", guard.ReadWrite, guard.Dir, 10),
				at("/h/w/secret", guard.Deny, guard.File, 11),
				at("/usr", guard.ReadOnly, guard.Dir, 12),
			},
			Links: []guard.Link{{Path: "/bin", Target: "usr/bin"}},
		},
		"base-system": {
			Base: policy.BaseSystem,
			Entries: []guard.Entry{
				at("/etc", guard.ReadOnly, guard.Dir, 10),
				at("/etc/shadow", guard.Empty, guard.File, 11),
				passable(at("/h", guard.Empty, guard.Dir, 12)),
				at("/h/w", guard.ReadWrite, guard.Dir, 13),
			},
		},
		"private": {Entries: []guard.Entry{
			at("/tmp/w", guard.ReadWrite, guard.Dir, 10),
			at("/tmp/w/secret", guard.Deny, guard.File, 11),
			at("/var/tmp", guard.ReadWrite, guard.Dir, 12),
			at("/dev/shm/x", guard.ReadOnly, guard.File, 13),
		}},
		"above-private": {Entries: []guard.Entry{
			at("/", guard.ReadWrite, guard.Dir, 2),
			at("/var", guard.Deny, guard.Dir, 10),
		}},
		"sockets-all": {
			UnixSockets: policy.SocketsAll,
			Sockets:     []guard.Socket{{Path: "/run/tb.sock"}},
			Require:     []string{"netns", "landlock>=4"},
		},
	}
	out := map[string]goldenCase{"root": {bwrap.Input{}, asRoot()}}
	for name, in := range cases {
		out[name] = goldenCase{in, machine()}
	}
	return out
}

func TestTranslateGolden(t *testing.T) {
	t.Parallel()
	for name, c := range goldenCases() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := translated(t, c.in, c.m)
			golden(t, name+".args", describe(l))
			if diff := cmp.Diff(l.Plan, translated(t, c.in, c.m).Plan); diff != "" {
				t.Errorf("a second translation differs:\n%s", diff)
			}
		})
	}
}

func translated(t *testing.T, in bwrap.Input, m bwrap.Machine) *bwrap.Launch {
	t.Helper()
	l, err := bwrap.TranslateInput(in, m, options())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// describe writes a launch, one flag, check and path a line.
func describe(l *bwrap.Launch) string {
	var s strings.Builder
	for i, a := range l.Args {
		switch {
		case i > 0 && strings.HasPrefix(a, "--"):
			s.WriteString("\n" + a)
		case i > 0:
			s.WriteString(" " + a)
		default:
			s.WriteString(a)
		}
	}
	s.WriteString("\n\n")
	for _, d := range l.Data {
		fmt.Fprintf(&s, "data %s %q\n", d.Name, d.Content)
	}
	for _, g := range l.Ghosts {
		fmt.Fprintf(&s, "ghost %s dir=%v\n", g.Path, g.Dir)
	}
	for _, c := range l.Setup.Checks {
		kind := map[wire.CheckKind]string{
			wire.CheckBind: "bind", wire.CheckEmptyDir: "empty-dir", wire.CheckEmptyFile: "empty-file",
			wire.CheckAbsent: "absent", wire.CheckPrivateDir: "private", wire.CheckPassDir: "pass-dir",
		}[c.Kind]
		fmt.Fprintf(&s, "check %s %s dev=%d ino=%d ro=%v mode=%04o size=%d\n", kind, c.Path, c.Dev, c.Ino, c.ReadOnly, c.Mode, c.Size)
	}
	for _, p := range bwrap.Later(l) {
		fmt.Fprintf(&s, "later %s\n", p)
	}
	fmt.Fprintf(&s, "landlock %v scope=%v\n", l.Setup.Landlock.Enabled, l.Setup.Landlock.Scope)
	for _, p := range l.Setup.Landlock.Writable {
		fmt.Fprintf(&s, "writable %s\n", p)
	}
	for _, p := range l.Setup.Landlock.WriteFiles {
		fmt.Fprintf(&s, "write-file %s\n", p)
	}
	for _, e := range l.Setup.Env {
		fmt.Fprintf(&s, "env %s\n", e)
	}
	fmt.Fprintf(&s, "listen %q\n", l.Setup.Listen)
	for _, m := range l.Plan.Mounts {
		fmt.Fprintf(&s, "mount %s %s %s %q\n", m.Path, m.Access, m.Kind, m.Rule.Text)
	}
	return s.String()
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}

// No golden file is left without a case.
func TestGoldenFilesAreUsed(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.args")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %q, %v", files, err)
	}
	cases := goldenCases()
	for _, f := range files {
		if _, ok := cases[strings.TrimSuffix(filepath.Base(f), ".args")]; !ok {
			t.Errorf("%s belongs to no case", f)
		}
	}
}

func TestTranslateRefuses(t *testing.T) {
	t.Parallel()
	at1 := map[string]policy.Position{"container": {File: "p.json", Line: 3, Column: 4}}
	for name, c := range map[string]struct {
		in      bwrap.Input
		code    string
		subject string
	}{
		"tier":                       {bwrap.Input{Tier: policy.TierContainer}, "field_unavailable", "tier"},
		"container":                  {bwrap.Input{Given: at1}, "field_unavailable", "container"},
		"transparent":                {bwrap.Input{Network: policy.Network{Mode: policy.ModeTransparent}}, "field_unavailable", "network.mode"},
		"sockets":                    {bwrap.Input{Sockets: []guard.Socket{{Path: "/s"}}}, "field_unavailable", "sockets"},
		"an unknown requirement":     {bwrap.Input{Require: []string{"netns", "magic"}}, "requirement_unmet", "magic"},
		"seccomp_notify":             {bwrap.Input{Require: []string{"seccomp_notify"}}, "requirement_unmet", "seccomp_notify"},
		"a newer Landlock":           {bwrap.Input{Require: []string{"landlock>=7"}}, "requirement_unmet", "landlock>=7"},
		"a Landlock of no version":   {bwrap.Input{Require: []string{"landlock>="}}, "requirement_unmet", "landlock>="},
		"a Landlock of odd form":     {bwrap.Input{Require: []string{"landlock>=04"}}, "requirement_unmet", "landlock>=04"},
		"a version of what has none": {bwrap.Input{Require: []string{"netns>=1"}}, "requirement_unmet", "netns>=1"},
		"a grant in /proc":           {entries(at("/proc/sys", guard.ReadWrite, guard.Dir, 1)), "cannot_express", "/proc/sys"},
		"a deny of a process":        {entries(at("/proc/self/environ", guard.Deny, guard.File, 1)), "cannot_express", "/proc/self/environ"},
		"a deny of /proc":            {entries(at("/proc", guard.Deny, guard.Dir, 1)), "cannot_express", "/proc"},
		"a grant of /dev":            {entries(at("/dev", guard.ReadWrite, guard.Dir, 1)), "cannot_express", "/dev"},
		"a grant of a device":        {entries(at("/dev/kvm", guard.ReadWrite, guard.Other, 1)), "cannot_express", "/dev/kvm"},
		"a deny of a link in /dev":   {entries(at("/dev/ptmx", guard.Deny, guard.Other, 1)), "cannot_express", "/dev/ptmx"},
		"a deny of the stub":         {entries(at(bwrap.StubPath, guard.Deny, guard.File, 1)), "cannot_express", bwrap.StubPath},
		"a deny of the root":         {entries(passable(at("/", guard.Deny, guard.Dir, 2))), "cannot_express", "/"},
		"a path beneath a file":      {entries(at("/f", guard.Deny, guard.File, 1), at("/f/x", guard.Deny, guard.File, 2)), "cannot_express", "/f/x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := bwrap.TranslateInput(c.in, machine(), options())
			refused(t, err, policy.Unavailable, c.code, c.subject)
		})
	}
}

func entries(es ...guard.Entry) bwrap.Input { return bwrap.Input{Entries: es} }

func refused(t *testing.T, err error, reason policy.Reason, code, subject string) {
	t.Helper()
	r, ok := errors.AsType[*policy.Refusal](err)
	switch {
	case !ok:
		t.Errorf("got %v, wanted a refusal", err)
	case r.Reason != reason || r.Code != code || r.Subject != subject:
		t.Errorf("got %s %s of %q, wanted %s %s of %q", r.Reason, r.Code, r.Subject, reason, code, subject)
	case r.Why == "" || r.Fix == "":
		t.Errorf("got %+v, wanted a reason and a fix", r)
	}
}

// Every field that is refused is tried above.
func TestUpstream(t *testing.T) {
	t.Parallel()
	in := bwrap.Input{Network: policy.Network{Upstream: "env:CORP", Allow: []policy.HostPattern{{Text: "x.example"}}}, Env: []string{"CORP=http://u:p@proxy", "CORP2=x"}}
	l, err := bwrap.TranslateInput(in, machine(), options())
	if err != nil {
		t.Fatal(err)
	}
	if env := strings.Join(l.Setup.Env, "\n"); strings.Contains(env, "u:p") || !strings.Contains(env, "CORP2=x") {
		t.Errorf("got %q, wanted it without the parent's password", env)
	}
	if notes := strings.Join(l.Plan.Notes, "\n"); !strings.Contains(notes, "parent proxy") {
		t.Errorf("the plan doesn't say that a parent resolves: %q", notes)
	}
}

func TestUnbuiltFieldsAreTried(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("translate_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range bwrap.UnbuiltFields() {
		if !strings.Contains(string(b), fmt.Sprintf(`"field_unavailable", %q}`, f)) {
			t.Errorf("no case refuses %s", f)
		}
	}
}

// Fields at their defaults, and what is built, are no reason to refuse.
func TestTranslateTakes(t *testing.T) {
	t.Parallel()
	no := false
	for name, in := range map[string]bwrap.Input{
		"modes":        {Network: policy.Network{Mode: policy.ModeProxy, VerifyTLSName: &no}},
		"auto":         {Network: policy.Network{Mode: policy.ModeAuto}, UnixSockets: policy.SocketsListed},
		"requirements": {Require: []string{"userns", "netns", "seccomp", "no_userns_inside", "landlock", "landlock>=6"}},
		"process tier": {Tier: policy.TierProcess, Base: policy.BaseHost},
	} {
		if _, err := bwrap.TranslateInput(in, machine(), options()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTranslateRefusesAnOldBubblewrap(t *testing.T) {
	t.Parallel()
	m := machine()
	m.Version = [3]int{0, 7, 9}
	_, err := bwrap.TranslateInput(bwrap.Input{}, m, options())
	refused(t, err, policy.Unavailable, "bwrap_too_old", "/usr/bin/bwrap")
}

func TestLandlockByMachine(t *testing.T) {
	t.Parallel()
	for abi, want := range map[int]struct {
		layer          string
		enabled, scope bool
	}{
		0: {"off: the kernel has no Landlock", false, false},
		1: {"off: the kernel has Landlock ABI 1, wanted 2", false, false},
		2: {"on (ABI 2)", true, false},
		5: {"on (ABI 5)", true, false},
		6: {"on (ABI 6)", true, true},
	} {
		m := machine()
		m.LandlockABI = abi
		l := translated(t, bwrap.Input{}, m)
		i := slices.IndexFunc(l.Plan.Layers, func(l plan.Layer) bool { return l.Name == "landlock" })
		if i < 0 || l.Plan.Layers[i].State != want.layer || l.Setup.Landlock.Enabled != want.enabled || l.Setup.Landlock.Scope != want.scope {
			t.Errorf("ABI %d: got %+v and %+v, wanted %+v", abi, l.Plan.Layers, l.Setup.Landlock, want)
		}
	}
}

func TestTooManyMounts(t *testing.T) {
	t.Parallel()
	many := func(n int) bwrap.Input {
		var in bwrap.Input
		for i := range n {
			e := at(fmt.Sprintf("/d/%06d", i), guard.Deny, guard.Dir, uint64(i))
			e.Rule.Source = fmt.Sprintf("p.json:%d:5 read.deny[%d]", i, i)
			in.Entries = append(in.Entries, e)
		}
		return in
	}
	if _, err := bwrap.TranslateInput(many(bwrap.MaxMounts-20), machine(), options()); err != nil {
		t.Error(err)
	}
	_, err := bwrap.TranslateInput(many(10_000), machine(), options())
	refused(t, err, policy.Unavailable, "too_many_mounts", "bubblewrap")
	if !strings.Contains(err.Error(), "read.deny (10000)") || !strings.Contains(err.Error(), "10010 mounts") {
		t.Errorf("got %v, wanted the count and the cause", err)
	}
}

func TestFreshNamesKeepTheDigest(t *testing.T) {
	t.Parallel()
	digestOf := func(run string) string {
		in := bwrap.Input{
			Entries: []guard.Entry{at(run, guard.ReadWrite, guard.Dir, 10), at(run+"/deny", guard.Deny, guard.Dir, 11)},
			Dir:     run, Paths: guard.Paths{Run: run, Tmp: run + "/tmp"},
		}
		o := options()
		o.Fresh = []bwrap.Fresh{{Name: "{run}", Path: run}}
		l, err := bwrap.TranslateInput(in, machine(), o)
		must(t, err)
		if !slices.Contains(l.Args, run+"/deny") || !slices.Contains(l.Plan.Args, "{run}/deny") {
			t.Errorf("got %q and %q, wanted the path in one and its name in the other", l.Args, l.Plan.Args)
		}
		d, err := l.Plan.Digest()
		must(t, err)
		return d
	}
	if digestOf("/s/run-1") != digestOf("/s/run-2") {
		t.Error("the digest depends on the name of a directory made for one launch")
	}
}

// Neither values of the environment nor the content of covers are in a plan.
func TestPlanHoldsNoSecret(t *testing.T) {
	t.Parallel()
	in := bwrap.Input{Env: []string{"API_KEY=s3cret"}, Withheld: []string{"OTHER"}}
	b, err := translated(t, in, machine()).Plan.Canonical()
	must(t, err)
	if strings.Contains(string(b), "s3cret") || !strings.Contains(string(b), "API_KEY") {
		t.Errorf("got %s, wanted the name and not the value", b)
	}
}

// The digest differs where what runs differs, and only there.
// networks differ in what they let out, and in nothing else.
func networks() []policy.Network {
	no, yes := false, true
	allow := func(h policy.HostPattern) []policy.HostPattern {
		h.Text, h.Name = "a.example", "a.example"
		return []policy.HostPattern{h}
	}
	usual := allow(policy.HostPattern{})
	return []policy.Network{
		{Allow: usual},
		{Allow: allow(policy.HostPattern{TLS: &no})},
		{Allow: allow(policy.HostPattern{Budget: policy.Budget{Connections: 1}})},
		{Allow: usual, VerifyTLSName: &no},
		{Allow: usual, VerifyTLSName: &yes},
		{Allow: usual, HostPorts: []uint16{80}},
		{Allow: usual, HostPorts: []uint16{81}},
		{Allow: usual, Expose: []policy.Expose{{Outside: 3000, Inside: 3000, Text: "3000"}}},
		{Allow: usual, Expose: []policy.Expose{{Outside: 3001, Inside: 3000, Text: "3001:3000"}}},
		{Allow: usual, Budget: policy.Budget{BytesUp: 1}},
		{Allow: usual, Budget: policy.Budget{Hosts: 1}},
		{Allow: usual, Upstream: "http://one.example:3128"},
		{Allow: usual, Upstream: "http://two.example:3128"},
		{Allow: usual, Upstream: "http://two.example:3128?no_proxy=a.example"},
		{Allow: usual, Upstream: "http://two.example:3128?no_proxy=b.example"},
	}
}

func TestPlanDigestOfLaunches(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for name, c := range goldenCases() {
		d, err := translated(t, c.in, c.m).Plan.Digest()
		must(t, err)
		if other, ok := seen[d]; ok {
			t.Errorf("%s and %s have one digest", name, other)
		}
		seen[d] = name
	}
	for i, n := range networks() {
		d, err := translated(t, bwrap.Input{Network: n}, machine()).Plan.Digest()
		must(t, err)
		if other, ok := seen[d]; ok {
			t.Errorf("network %d and %s have one digest", i, other)
		}
		seen[d] = fmt.Sprintf("network %d", i)
	}
	a, b := bwrap.Input{Env: []string{"TERM=a"}}, bwrap.Input{Env: []string{"TERM=b"}}
	da, err := translated(t, a, machine()).Plan.Digest()
	must(t, err)
	db, err := translated(t, b, machine()).Plan.Digest()
	must(t, err)
	if da != db {
		t.Error("the value of a variable changes the digest, and values are no part of a plan")
	}
}
