package policy_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold/policy"
)

func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func texts(rules []policy.PathRule) []string {
	var texts []string
	for _, r := range rules {
		texts = append(texts, r.Text)
	}
	return texts
}

func TestExtendsMerges(t *testing.T) {
	t.Parallel()
	dir := writeFiles(t, map[string]string{
		"p.json": `{"extends": ["./sub/a.json", "./b.yaml"], "tier": "process", "write": ["./top"],
			"network": {"deny": ["c.example"]}, "env": {"set": {"X": "top"}}, "guard_workspace": {"except": [".idea"]}}`,
		"sub/a.json": `{"extends": ["./../c.jsonc"], "write": ["./a"], "network": {"deny": ["a.example"], "mode": "proxy"},
			"env": {"set": {"X": "a", "Y": "a"}}, "limits": {"pids": 1, "memory": "1g"}, "hard_links": {"allow_from": ["/s"]},
			"guard_workspace": {"except": [".vscode"]}, "container": {"build": {"dockerfile": "./D"}}}`,
		"b.yaml":  "write: [./b]\nnetwork:\n  deny: [b.example]\n  mode: auto\nlimits:\n  pids: 2\nhard_links: refuse\n",
		"c.jsonc": `{"write": ["/c"], "tier": "container", "guard_workspace": false, "read": {"base": "none"},}`,
	})
	p, err := policy.Load(filepath.Join(dir, "p.json"))
	if err != nil {
		t.Fatal(err)
	}
	var deny []string
	for _, h := range p.Network.Deny {
		deny = append(deny, h.Text)
	}
	got := map[string]any{
		"write": texts(p.Write), "deny": deny, "mode": p.Network.Mode, "tier": p.Tier, "base": p.Read.Base, "env": p.Env.Set,
		"pids": p.Limits.PIDs, "memory": p.Limits.Memory, "links": texts(p.HardLinks.AllowFrom), "guard": p.GuardWorkspace,
		"extends": p.Extends, "dockerfile base": p.Container.Build.Dockerfile.Base,
	}
	want := map[string]any{
		"write": []string{"/c", "./a", "./b", "./top"}, "deny": []string{"a.example", "b.example", "c.example"},
		"mode": policy.ModeAuto, "tier": policy.TierProcess, "base": policy.BaseNone, "env": map[string]string{"X": "top", "Y": "a"},
		"pids": int64(2), "memory": int64(1 << 30), "links": []string(nil),
		"guard":   policy.GuardWorkspace{Except: []string{".vscode", ".idea"}},
		"extends": []string{"./sub/a.json", "./b.yaml"}, "dockerfile base": filepath.Join(dir, "sub"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if base := p.Write[2].Base; base != dir {
		t.Errorf("./b starts at %q", base)
	}
	if at := p.Given["limits.memory"]; at.File != filepath.Join(dir, "sub/a.json") || at.Line != 2 {
		t.Errorf("limits.memory is given at %v", at)
	}
	checkSources(t, p, dir, "p.json", "sub/a.json", "c.jsonc", "b.yaml")
}

func checkSources(t *testing.T, p *policy.Policy, dir string, names ...string) {
	t.Helper()
	var want []policy.Source
	for _, name := range names {
		path := filepath.Join(dir, name)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, policy.Source{File: path, SHA256: sha256.Sum256(data)})
	}
	if diff := cmp.Diff(want, p.Sources); diff != "" {
		t.Errorf("sources (-want +got):\n%s", diff)
	}
}

func TestExtendsRefuses(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"self.json":    `{"extends": ["./self.json"]}`,
		"cycle.json":   `{"extends": ["./cycle2.json"]}`,
		"cycle2.json":  `{"extends": ["./sub/../cycle.json"]}`,
		"missing.json": `{"extends": ["./none.json"]}`,
		"dir.json":     `{"extends": ["./sub"]}`,
		"bad.json":     `{"extends": ["./sub/bad.json"]}`,
		"sub/bad.json": "{\n\"wrte\": []}",
		"deep0.json":   `{}`,
		"many.json":    `{"extends": [` + strings.Repeat(`"preset:go",`, 65) + `]}`,
		"most.json":    `{"extends": [` + strings.Repeat(`"preset:go",`, 64) + `]}`,
		"text.json":    `{"extends": "preset:go"}`,
	}
	for i := 1; i <= 11; i++ {
		files[fmt.Sprintf("deep%d.json", i)] = fmt.Sprintf(`{"extends": ["./deep%d.json"]}`, i-1)
	}
	dir := writeFiles(t, files)
	tests := map[string]string{
		"self.json":    `/self.json:1:14: cannot use extends[0]: "./self.json": it builds on itself`,
		"cycle.json":   `/cycle2.json:1:14: cannot use extends[0]: "./sub/../cycle.json": it builds on itself`,
		"missing.json": `/missing.json:1:14: cannot use extends[0]: "./none.json": there is no such file`,
		"dir.json":     `/dir.json:1:14: cannot use extends[0]: "./sub": it is a directory`,
		"bad.json":     `/sub/bad.json:2:1: cannot use wrte: there is no such field; did you mean "write"?`,
		"deep11.json":  `/deep1.json:1:14: cannot use extends[0]: "./deep0.json": it is more than 10 documents deep`,
		"many.json":    `/many.json:1:782: cannot use extends[64]: "preset:go": more than 64 documents build on each other`,
		"text.json":    `/text.json:1:13: cannot use extends: it is a string and must be a list; write ["preset:go"]`,
		"deep10.json":  "",
		"most.json":    "",
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := policy.Load(filepath.Join(dir, name))
			if want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || err.Error() != dir+want {
				t.Errorf("got  %v\nwant %s", err, dir+want)
			}
		})
	}
}

func TestPresets(t *testing.T) {
	t.Parallel()
	for _, name := range policy.Presets() {
		data, err := policy.Preset(name)
		if err != nil {
			t.Fatal(err)
		}
		p, err := policy.Parse(data, "preset:"+name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, rule := range p.Write {
			if !rule.Optional && rule.Text != "{workspace}" {
				t.Errorf("%s: the cache %q must exist", name, rule.Text)
			}
			if strings.HasPrefix(rule.Text, "./") {
				t.Errorf("%s: %q has no file to start from", name, rule.Text)
			}
		}
		for _, host := range p.Network.Allow {
			if host.Port != 443 {
				t.Errorf("%s: %q is allowed at other ports than 443", name, host.Text)
			}
		}
		for field := range p.Given {
			switch field {
			case "write", "network", "network.allow", "env", "env.secrets":
			default:
				t.Errorf("%s: a preset sets %s", name, field)
			}
		}
	}
	for _, name := range []string{"go", "node", "python", "rust", "java", "claude", "codex"} {
		if _, err := policy.Preset(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"", "..", "../presets/go", "go.json", "GO"} {
		if _, err := policy.Preset(name); err == nil {
			t.Errorf("there is a preset %q", name)
		}
	}
}

func TestExtendsPreset(t *testing.T) {
	t.Parallel()
	p, err := policy.Parse([]byte(`{"extends": ["preset:go", "preset:node"], "write": ["/x"]}`), "")
	if err != nil {
		t.Fatal(err)
	}
	if p.Write[0].At.File != "preset:go" || p.Write[len(p.Write)-1].Text != "/x" || len(p.Sources) != 0 {
		t.Errorf("got %+v, sources %v", p.Write, p.Sources)
	}
}

// TestFilesOfABrokenPolicy: those are named too that can't be read or parsed,
// or aren't there.
func TestFilesOfABrokenPolicy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"p.json":   `{"extends": ["./missing.json", "preset:go", "./bad.json", "./b.json"], "nope": 1}`,
		"bad.json": `{`, "b.json": `{"extends": ["./c.json"]}`, "c.json": `{}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var want []string
	for _, name := range []string{"p.json", "missing.json", "bad.json", "b.json", "c.json"} {
		want = append(want, filepath.Join(dir, name))
	}
	if diff := cmp.Diff(want, policy.Files(filepath.Join(dir, "p.json"))); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}
