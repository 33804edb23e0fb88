package seatbelt

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"pinfold/guard"
	"pinfold/policy"
	"pinfold/seatbelt/sbpl"
)

// realPolicies are ten that people have, with what each must and must not
// allow besides what the matrix asks.
func realPolicies() map[string]realPolicy {
	return map[string]realPolicy{
		"claude": {
			document: `{"write": ["{workspace}", "~/.local/share/pinfold-claude"], "network": {"allow": ["api.anthropic.com", "github.com:443"]}}`,
			allows:   []string{"file-write-create ~/.local/share/pinfold-claude/x", "file-write-create {workspace}/src/new.go", "process-exec /opt/homebrew/bin/node"},
			denies:   []string{"file-write-data ~/.claude.json", "file-read-data ~/.claude/.credentials.json", "file-write-create {workspace}/.git/hooks/x"},
		},
		"codex": {
			document: `{"write": ["{workspace}", "~/.local/share/pinfold-codex"], "network": {"allow": ["api.openai.com"]}}`,
			allows:   []string{"file-write-create ~/.local/share/pinfold-codex/x"},
			denies:   []string{"file-read-data ~/.codex/auth.json", "file-write-create ~/.codex/x"},
		},
		"npm": {
			document: `{"write": ["{workspace}", "~/.npm"], "read": {"base": "system"}, "network": {"allow": ["packages.example.org"]}}`,
			allows:   []string{"file-write-create ~/.npm/_cacache/x", "file-read-data /usr/local/bin/npm"},
			denies:   []string{"file-read-data ~/.npmrc", "file-read-data ~/Documents/x"},
		},
		"go": {
			document: `{"write": ["{workspace}", "~/Library/Caches/go-build"], "read": {"base": "system", "allow": ["~/go"]}}`,
			allows:   []string{"file-read-data ~/go/pkg/mod/x", "process-exec /usr/local/go/bin/go", "file-write-create ~/Library/Caches/go-build/x"},
			denies:   []string{"file-write-data ~/go/bin/x", "file-read-data ~/Library/Keychains/login.keychain-db"},
		},
		"python": {
			document: `{"write": ["{workspace}", "~/.cache/pip"], "network": {"allow": ["pypi.org", "files.pythonhosted.org"]}}`,
			allows:   []string{"file-write-create ~/.cache/pip/x", "process-exec /usr/bin/python3"},
			denies:   []string{"file-read-data ~/.pypirc", "file-write-data ~/.zshrc"},
		},
		"java": {
			document: `{"write": ["{workspace}", "~/.m2/repository", "~/.gradle/caches"], "network": {"allow": ["repo.maven.apache.org"], "host_ports": [5432]}}`,
			allows:   []string{"file-write-create ~/.m2/repository/x"},
			denies:   []string{"file-read-data ~/.m2/settings.xml", "file-read-data ~/.gradle/gradle.properties"},
		},
		"review": {
			document: `{"read_only": ["{workspace}"], "read": {"deny": ["{workspace}/.env", "{workspace}/secrets"]}}`,
			allows:   []string{"file-read-data {workspace}/src/main.go"},
			denies:   []string{"file-write-data {workspace}/src/main.go", "file-read-data {workspace}/secrets/key", "file-write-unlink {workspace}/src/main.go"},
		},
		"system": {
			document: `{"write": ["{workspace}"], "read": {"base": "system"}}`,
			allows:   []string{"file-read-data /usr/bin/env", "file-read-metadata ~"},
			denies:   []string{"file-read-data ~/notes", "file-read-data ~"},
		},
		"none": {
			document: `{"write": ["{workspace}"], "read": {"base": "none", "allow": ["/opt/tools"]}}`,
			allows:   []string{"process-exec /opt/tools/x", "file-map-executable /usr/lib/libSystem.B.dylib"},
			denies:   []string{"process-exec /bin/sh", "file-read-data /private/etc/passwd"},
		},
		"sockets": {
			document: `{"write": ["{workspace}"], "sockets": ["~/tool.sock", "/private/var/run/docker.sock"], "network": {"expose": ["0.0.0.0:3000"]}}`,
			allows:   []string{"file-write-create {workspace}/x"},
			denies:   []string{"file-read-data ~/.docker/config.json"},
		},
	}
}

type realPolicy struct {
	document       string
	allows, denies []string
}

// macVars are the places of a launch on a Mac.
var macVars = policy.Vars{Home: "/Users/ann", Workspace: "/Users/ann/src/app"}

func onMac(p string) string {
	return strings.NewReplacer("{workspace}", macVars.Workspace, "~", macVars.Home).Replace(p)
}

// macInput makes what the guard would make of a policy on a Mac where all of
// it exists, the workspace is a repository and no link is on the way.
func macInput(t *testing.T, document string) input {
	t.Helper()
	pol, err := policy.Parse([]byte(document), "")
	if err != nil {
		t.Fatal(err)
	}
	in := input{view: view{base: pol.Read.Base, unix: pol.UnixSockets}, network: pol.Network, argv: []string{"sh"}, dir: macVars.Workspace}
	for _, d := range policy.DefaultDenies(policy.DefaultContext{GOOS: "darwin", UID: 501, Home: macVars.Home}) {
		kind := guard.File
		if path.Ext(d.Path) == "" {
			kind = guard.Dir
		}
		// The guard makes one of two paths to the same thing.
		if p := canonicalOnMac(d.Path); !slices.ContainsFunc(in.entries, func(e guard.Entry) bool { return e.Path == p }) {
			in.entries = append(in.entries, macEntry(p, guard.Empty, kind, guard.ClassDefault, d.Text, "default denies"))
		}
	}
	for _, list := range []struct {
		rules  []policy.PathRule
		access guard.Access
		name   string
	}{{pol.Read.Allow, guard.ReadOnly, "read.allow"}, {pol.Write, guard.ReadWrite, "write"}, {pol.ReadOnly, guard.ReadOnly, "read_only"}} {
		for _, r := range list.rules {
			in.entries = append(in.entries, macEntry(expandMac(t, r), list.access, guard.Dir, guard.ClassPolicy, r.Text, list.name))
		}
	}
	for _, d := range pol.Read.Deny {
		in.entries = append(in.entries, macEntry(expandMac(t, d), guard.Deny, guard.Dir, guard.ClassPolicy, d.Text, "read.deny"))
	}
	for _, s := range pol.Sockets {
		in.sockets = append(in.sockets, guard.Socket{Path: expandMac(t, s), Rule: guard.Rule{Class: guard.ClassPolicy, Text: s.Text, Source: "sockets"}})
	}
	in.guardWorkspace()
	slices.SortStableFunc(in.entries, func(a, b guard.Entry) int { return cmp.Compare(a.Path, b.Path) })
	return in
}

func macEntry(p string, a guard.Access, k guard.Kind, c guard.Class, text, source string) guard.Entry {
	return guard.Entry{Path: p, Access: a, Kind: k, Rule: guard.Rule{Class: c, Text: text, Source: source}}
}

// canonicalOnMac follows the links that every Mac has in its root.
func canonicalOnMac(p string) string {
	for _, l := range []string{"/etc", "/tmp", "/var"} {
		if within(l, p) {
			return "/private" + p
		}
	}
	return p
}

func expandMac(t *testing.T, r policy.PathRule) string {
	t.Helper()
	p, err := policy.Expand(r, macVars)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// guardWorkspace adds what the guard keeps read-only in a repository that may
// be written, and what isn't there yet.
func (in *input) guardWorkspace() {
	if !slices.ContainsFunc(in.entries, func(e guard.Entry) bool { return e.Path == macVars.Workspace && e.Access == guard.ReadWrite }) {
		return
	}
	for _, n := range []string{".git/config", ".git/hooks", ".git/info"} {
		in.entries = append(in.entries, macEntry(macVars.Workspace+"/"+n, guard.ReadOnly, guard.Dir, guard.ClassGuarded, n, "guarded workspace files"))
	}
	in.pins = append(in.pins, guard.Pin{Root: macVars.Workspace, Path: macVars.Workspace + "/.git"})
	for _, n := range []string{".envrc", ".mcp.json", ".claude/settings.json"} {
		in.watches = append(in.watches, guard.Watch{Path: macVars.Workspace + "/" + n, Rule: guard.Rule{Class: guard.ClassGuarded, Text: n, Source: "guarded workspace files"}})
	}
}

// TestRealPolicies writes the profile of each down, and asks what matters.
func TestRealPolicies(t *testing.T) {
	t.Parallel()
	for name, c := range realPolicies() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, err := translate(macInput(t, c.document), Machine{}, LaunchOptions{Tmp: "/Users/ann/.local/state/pinfold/tmp/1", Inside: "/usr/local/bin/pinfold"})
			if err != nil {
				t.Fatal(err)
			}
			text := "; A policy, and the profile that pinfold writes for it on a Mac.\n; " + c.document + "\n" + l.Text.Profile
			for _, p := range l.Text.Params {
				text += fmt.Sprintf("; -D %s=%s\n", p.Name, p.Value)
			}
			compareGolden(t, "real_"+name+".sb", text)
			c.check(t, l)
		})
	}
}

func (c realPolicy) check(t *testing.T, l *Launch) {
	t.Helper()
	p, err := sbpl.Parse(l.Text.At(49152, "pinfold-TAG"))
	if err != nil {
		t.Fatal(err)
	}
	params := l.Text.Map()
	params["TTY"] = "/dev/null"
	for want, list := range map[bool][]string{true: c.allows, false: c.denies} {
		for _, q := range list {
			op, file, _ := strings.Cut(q, " ")
			if got := ask(t, p, params, sbpl.Query{Op: op, Path: onMac(file)}); got != want {
				t.Errorf("%s: got %v", q, got)
			}
		}
	}
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := gocmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-golden +got; rewrite with -update):\n%s", name, d)
	}
}
