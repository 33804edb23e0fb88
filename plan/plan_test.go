package plan_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold/guard"
	"pinfold/plan"
)

var update = flag.Bool("update", false, "write the golden files anew")

// sample is a plan with something in every field.
func sample() *plan.Plan {
	return &plan.Plan{
		Version: plan.Version, Backend: "bwrap",
		Tool:    plan.Tool{Path: "/usr/bin/bwrap", Version: "0.8.0"},
		Args:    []string{"--ro-bind", "/", "/", "--seccomp", "{fd:seccomp}"},
		Data:    []plan.Data{{Name: "seccomp", SHA256: "ab", Size: 8}},
		Command: []string{"npm", "install", "a b"}, Dir: "/w",
		EnvNames: []string{"HOME", "PATH"}, Withheld: []string{"NPM_TOKEN"},
		Mounts: []plan.Mount{
			{Path: "/", Access: "read-only", Kind: "bind", Rule: guard.Rule{Class: guard.ClassBuiltin, Text: "read.base host", Source: "process tier"}},
			{Path: "/w", Access: "read-write", Kind: "bind", Rule: guard.Rule{Class: guard.ClassPolicy, Text: "{workspace}", Source: "p.json:3:4 write[0]"}},
			{Path: "/bin", Access: "read-only", Kind: "symlink", Source: "usr/bin", Rule: guard.Rule{Class: guard.ClassBuiltin, Text: "read.base", Source: "process tier"}},
		},
		Hosts: []string{"github.com:443"}, DenyHosts: []string{"gist.github.com"}, Terms: []string{"host_ports 5432"},
		Sockets: []string{"/run/tb.sock"}, Listeners: []string{"127.0.0.1:3128"},
		Layers:  []plan.Layer{{Name: "userns", State: "on"}, {Name: "landlock", State: "off: the kernel has no Landlock"}},
		Filter:  plan.Filter{Mode: "base", Arch: "amd64", SHA256: "ab"},
		Limits:  []plan.Limit{{Name: "memory", Value: "4294967296"}},
		Signals: plan.Signals{Stop: "term"}, Require: []string{"landlock>=1"},
		Owner: guard.Owner{Execution: "e1", Segment: "s1"},
		Paths: guard.Paths{Workspace: "/w", Tmp: "/tmp"},
		Notes: []string{"a store is written through"}, Stub: "cd",
	}
}

func digest(t *testing.T, p *plan.Plan) string {
	t.Helper()
	d, err := p.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// golden compares with a file under testdata.
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

// The digest is part of what daemons store: it must not change by itself,
// with a new Go version or library.
func TestCanonicalIsStable(t *testing.T) {
	t.Parallel()
	b, err := sample().Canonical()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "canonical.json", string(b))
	golden(t, "digest.txt", digest(t, sample())+"\n")
}

func TestDigestIsThatOfTheSameInput(t *testing.T) {
	t.Parallel()
	if a, b := digest(t, sample()), digest(t, sample()); a != b || !strings.HasPrefix(a, "sha256:") || len(a) != 71 {
		t.Errorf("got %q and %q, wanted one digest twice", a, b)
	}
}

func TestDigestChangesWithEveryField(t *testing.T) {
	t.Parallel()
	changes := map[string]func(*plan.Plan){
		"version":          func(p *plan.Plan) { p.Version++ },
		"backend":          func(p *plan.Plan) { p.Backend = "docker" },
		"tool path":        func(p *plan.Plan) { p.Tool.Path = "/opt/bwrap" },
		"tool version":     func(p *plan.Plan) { p.Tool.Version = "0.9.0" },
		"an argument":      func(p *plan.Plan) { p.Args[0] = "--bind" },
		"argument order":   func(p *plan.Plan) { p.Args[1], p.Args[3] = p.Args[3], p.Args[1] },
		"data":             func(p *plan.Plan) { p.Data[0].SHA256 = "ac" },
		"command":          func(p *plan.Plan) { p.Command[2] = "a  b" },
		"command split":    func(p *plan.Plan) { p.Command = []string{"npm", "install", "a", "b"} },
		"invalid UTF-8":    func(p *plan.Plan) { p.Command[2] = "a\xff" },
		"directory":        func(p *plan.Plan) { p.Dir = "/x" },
		"env name":         func(p *plan.Plan) { p.EnvNames[0] = "HOM" },
		"withheld":         func(p *plan.Plan) { p.Withheld = nil },
		"mount access":     func(p *plan.Plan) { p.Mounts[1].Access = "read-only" },
		"mount rule":       func(p *plan.Plan) { p.Mounts[1].Rule.Text = "/w" },
		"a mount less":     func(p *plan.Plan) { p.Mounts = p.Mounts[:1] },
		"host":             func(p *plan.Plan) { p.Hosts[0] = "github.com" },
		"denied host":      func(p *plan.Plan) { p.DenyHosts = nil },
		"network term":     func(p *plan.Plan) { p.Terms[0] = "host_ports 5433" },
		"socket":           func(p *plan.Plan) { p.Sockets = nil },
		"listener":         func(p *plan.Plan) { p.Listeners = nil },
		"layer":            func(p *plan.Plan) { p.Layers[0].State = "off: x" },
		"filter":           func(p *plan.Plan) { p.Filter.SHA256 = "ac" },
		"limit":            func(p *plan.Plan) { p.Limits[0].Value = "1" },
		"stop":             func(p *plan.Plan) { p.Signals.Stop = "kill" },
		"requirement":      func(p *plan.Plan) { p.Require = nil },
		"owner":            func(p *plan.Plan) { p.Owner.Segment = "s2" },
		"paths":            func(p *plan.Plan) { p.Paths.Tmp = "/w/tmp" },
		"note":             func(p *plan.Plan) { p.Notes = nil },
		"stub":             func(p *plan.Plan) { p.Stub = "ce" },
		"another bad byte": func(p *plan.Plan) { p.Command[2] = "a\xfe" },
	}
	seen := map[string]string{digest(t, sample()): "nothing"}
	for name, change := range changes {
		p := sample()
		change(p)
		d := digest(t, p)
		if other, ok := seen[d]; ok {
			t.Errorf("changing %s gives the digest of changing %s", name, other)
		}
		seen[d] = name
	}
}

// A string that isn't UTF-8 and the text it is written as are two plans.
func TestRawStringsCannotBeForged(t *testing.T) {
	t.Parallel()
	p := sample()
	p.Command = []string{"a\xff"}
	b, err := p.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	back, err := plan.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, back); diff != "" {
		t.Errorf("the plan changed on the way (-want +got):\n%s", diff)
	}
	p.Command = []string{"\x00base64:Yf8="}
	if d, err := p.Digest(); err == nil {
		t.Errorf("got digest %s of a command with a NUL byte, wanted an error", d)
	}
}

func TestParseIsStrict(t *testing.T) {
	t.Parallel()
	b, err := sample().Canonical()
	if err != nil {
		t.Fatal(err)
	}
	good := string(b)
	for name, bad := range map[string]string{
		"empty":      "",
		"not JSON":   "plan",
		"cut short":  good[:len(good)-1],
		"trailing":   good + "\n",
		"unknown":    strings.Replace(good, `"args":`, `"argz":[],"args":`, 1),
		"repeated":   strings.Replace(good, `"args":`, `"args":[],"args":`, 1),
		"mistyped":   strings.Replace(good, `"version":1`, `"version":"1"`, 1),
		"spaced":     strings.Replace(good, `"version":1`, `"version": 1`, 1),
		"other case": strings.Replace(good, `"args":`, `"Args":`, 1),
	} {
		if bad == good {
			t.Fatalf("%s: nothing was changed", name)
		}
		if _, err := plan.Parse([]byte(bad)); err == nil {
			t.Errorf("%s: got a plan, wanted an error", name)
		}
	}
	if p, err := plan.Parse(b); err != nil || cmp.Diff(sample(), p) != "" {
		t.Errorf("got %v, %v, wanted the plan back", p, err)
	}
}

func FuzzParse(f *testing.F) {
	b, err := sample().Canonical()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"command":["\u0000base64:/w=="]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := plan.Parse(b)
		if err != nil {
			return
		}
		if again, err := p.Canonical(); err != nil || string(again) != string(b) {
			t.Errorf("got %q, %v, wanted %q back", again, err, b)
		}
	})
}

func TestText(t *testing.T) {
	t.Parallel()
	p := sample()
	p.Command = append(p.Command, "\x1b[2J")
	var s strings.Builder
	if err := p.Text(&s); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(s.String(), "\x1b") {
		t.Error("an escape sequence reached the terminal")
	}
	golden(t, "text.txt", s.String())
}

// TestNotesAreCopied: a command in a note is as it is to be typed.
func TestNotesAreCopied(t *testing.T) {
	t.Parallel()
	var s strings.Builder
	note := `no logs yet: mkdir "/w/.bare/logs" first`
	if err := (&plan.Plan{Notes: []string{note, "a \x1b[2J\nmounts (9)"}}).Text(&s); err != nil {
		t.Fatal(err)
	}
	if want := "\nnotes\n  " + note + "\n  a \\x1b[2J\\nmounts (9)\n"; !strings.HasSuffix(s.String(), want) {
		t.Errorf("got %q, wanted it to end with %q", s.String(), want)
	}
}

func TestTextOfNothing(t *testing.T) {
	t.Parallel()
	var s strings.Builder
	if err := (&plan.Plan{}).Text(&s); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(s.String(), "none: nothing can leave") {
		t.Errorf("got %q, wanted it to say that nothing can leave", s.String())
	}
}
