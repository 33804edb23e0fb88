package seatbelt_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"pinfold/guard"
	"pinfold/policy"
)

// tree is a home, a workspace that is a repository, and what lies around.
type tree struct {
	root, home, ws, run, protect, state, sock string
}

// newTree lays one out where launches have no private directory in its place.
func newTree(t testing.TB) *tree {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Skip("no home to make a tree in")
	}
	root, err := os.MkdirTemp(home, "seatbelt-tree-")
	if err != nil {
		t.Skipf("the home can't be written: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	tr := &tree{
		root: root, home: root + "/home", ws: root + "/home/ws", run: root + "/run", protect: root + "/daemon",
		state: root + "/state", sock: root + "/tool.sock",
	}
	for _, f := range []string{
		"home/.ssh/id_ed25519", "home/.ssh/known_hosts", "home/.aws/credentials", "home/.netrc", "home/.config/gh/hosts.yml",
		"home/.config/app/x.toml", "home/.npmrc", "home/.bashrc", "home/.docker/config.json", "home/.cache/a/b", "home/notes/n",
		"home/ws/.git/config", "home/ws/.git/HEAD", "home/ws/.git/hooks/pre-commit", "home/ws/.git/objects/aa", "home/ws/src/main.go",
		"home/ws/src/deep/er/x", "home/ws/vendor/v.go", "home/ws/secrets/key", "home/ws/secrets/public/p", "home/ws/.vscode/tasks.json",
		"home/ws/sub/.git/config", "home/ws/sub/f", "run/r", "daemon/token", "daemon/share/s", "state/records/x", "public/notes",
	} {
		p := filepath.Join(root, f)
		must(t, os.MkdirAll(filepath.Dir(p), 0o700))
		must(t, os.WriteFile(p, []byte("x"), 0o600))
	}
	must(t, os.Symlink("../public", tr.home+"/to-public"))
	ln, err := net.Listen("unix", tr.sock)
	must(t, err)
	t.Cleanup(func() { ln.Close() })
	return tr
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// launch asks the real guard.
func (tr *tree) launch(t testing.TB, document string) (*guard.Grant, error) {
	t.Helper()
	pol, err := policy.Parse([]byte(document), "")
	if err != nil {
		return nil, err
	}
	return guard.GuardLaunch(t.Context(), pol, guard.Request{
		Argv: []string{"true"}, CallerDir: tr.ws, Env: []string{"PATH=/usr/bin:/bin", "HOME=" + tr.home},
		Workspace: tr.ws, RunDir: tr.run, Toolbelt: tr.sock, Home: tr.home, State: tr.state,
		Share: []string{tr.protect + "/share"}, UID: os.Geteuid(), GID: os.Getegid(),
	}, []string{tr.protect})
}

// paths are all that stand in the tree, with names beside and beneath them
// that don't.
func (tr *tree) paths(t testing.TB) []string {
	t.Helper()
	var out []string
	must(t, filepath.WalkDir(tr.root, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.Type()&fs.ModeSymlink != 0 { // nothing is asked about by a link's name
			return err
		}
		out = append(out, p, p+".new", p+"x")
		if d.IsDir() {
			out = append(out, p+"/new", p+"/.git", p+"/.envrc", p+"/new/er", p+"/.claude/settings.json", p+"/.git/hooks/new", p+"/.env")
		}
		return nil
	}))
	slices.Sort(out)
	return slices.Compact(out)
}

// documents are the rule sets that the tests of the other back end use, in
// short.
func documents() map[string]string {
	return map[string]string{
		"empty":            `{}`,
		"workspace":        `{"write": ["{workspace}"]}`,
		"no guard":         `{"write": ["{workspace}"], "guard_workspace": false}`,
		"guard less":       `{"write": ["{workspace}"], "guard_workspace": {"except": [".vscode"]}}`,
		"read only inside": `{"write": ["{workspace}"], "read_only": ["{workspace}/vendor", "{workspace}/missing/dir"]}`,
		"deny inside":      `{"write": ["{workspace}"], "read": {"deny": ["{workspace}/secrets", "{workspace}/.env", "{workspace}/new/er"]}}`,
		"allow in deny":    `{"write": ["{workspace}", "{workspace}/secrets/public"], "read": {"deny": ["{workspace}/secrets"]}}`,
		"lifted":           `{"write": ["{workspace}"], "read": {"allow": ["~/.ssh/known_hosts", "~/.netrc"]}}`,
		"system":           `{"write": ["{workspace}"], "read": {"base": "system", "allow": ["~/notes"]}}`,
		"none":             `{"write": ["{workspace}"], "read": {"base": "none", "allow": ["/usr", "~/notes"]}}`,
		"part of home":     `{"write": ["{workspace}", "~/.cache"], "read": {"deny": ["~/notes"]}}`,
		"home":             `{"write": ["{home}"]}`,
		"sockets":          `{"write": ["{workspace}"], "sockets": ["{toolbelt}"]}`,
		"ports":            `{"write": ["{workspace}"], "network": {"allow": ["example.com"], "host_ports": [5432], "expose": ["0.0.0.0:3000"]}}`,
		"a link":           `{"write": ["{workspace}"], "read": {"base": "none", "allow": ["~/to-public"]}}`,
		"shared socket":    `{"write": ["~"], "sockets": ["{toolbelt}"], "read": {"deny": ["~/notes"]}}`,
		"deny over grant":  `{"write": ["{workspace}/src/deep"], "read": {"deny": ["{workspace}/src"]}}`,
		"read over deny":   `{"write": ["{workspace}"], "read": {"deny": ["{workspace}/src"], "allow": ["{workspace}/src/deep"]}, "read_only": ["{workspace}/src/deep/er"]}`,
		"as empty":         `{"write": ["{workspace}"], "read": {"deny": [{"path": "{workspace}/secrets", "as": "empty"}]}}`,
		"a file":           `{"write": ["{workspace}/src/main.go"]}`,
		"two":              `{"write": ["{workspace}/src", "{workspace}/sub"], "read_only": ["{workspace}/src/deep"]}`,
	}
}

// TestMatrixOfGrants: one grant, two back ends, the same answers.
func TestMatrixOfGrants(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	paths, total, refused, absent := tr.paths(t), 0, 0, 0
	for name, document := range documents() {
		g, err := tr.launch(t, document)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			refused++
			continue
		}
		c := compare(t, g)
		for i, p := range paths {
			// The interesting places always, of the others one in sixteen.
			if i%16 == total%16 || c.stricter[p] || c.pins[p] || slices.Contains(c.unmade, p) {
				c.check(t, p)
			}
		}
		for _, e := range g.Entries() {
			c.check(t, e.Path)
			c.check(t, e.Path+".new")
		}
		for _, e := range g.Absent() {
			c.absent(t, e.Path)
		}
		absent += len(g.Absent())
		c.spellings(t)
		c.reaches(t)
		total += c.cases
		must(t, g.Close())
	}
	t.Logf("%d cases of %d rule sets", total, len(documents())-refused)
	if total < 50_000 || absent < 100 {
		t.Errorf("only %d cases, %d of them of what isn't there", total, absent)
	}
}

// TestRandomGrantsOfTheGuard: whatever a policy says, if the guard takes it
// the profile says the same.
func TestRandomGrantsOfTheGuard(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	paths := tr.paths(t)
	launched := 0
	rapid.Check(t, func(rt *rapid.T) {
		document := randomDocument(rt, tr)
		g, err := tr.launch(t, document)
		if err != nil {
			var r *policy.Refusal
			if !errors.As(err, &r) {
				rt.Fatalf("%s: %v", document, err)
			}
			return
		}
		defer g.Close()
		launched++
		c := compare(rt, g)
		for range 10 {
			c.check(rt, rapid.SampledFrom(paths).Draw(rt, "path"))
		}
		c.spellings(rt)
	})
	if launched == 0 {
		t.Error("the guard took none of the policies")
	}
	t.Logf("%d launches", launched)
}

// randomDocument puts rules on places of the tree.
func randomDocument(t *rapid.T, tr *tree) string {
	places := []string{
		"", "/src", "/src/deep", "/src/deep/er", "/src/main.go", "/vendor", "/secrets", "/secrets/public", "/secrets/key",
		"/missing", "/missing/deep", "/sub", "/sub/f", "/new/er",
	}
	draw := func(list string, most int) []string {
		out := []string{}
		for _, p := range rapid.SliceOfNDistinct(rapid.SampledFrom(places), 0, most, rapid.ID[string]).Draw(t, list) {
			out = append(out, tr.ws+p)
		}
		return out
	}
	b, err := json.Marshal(map[string]any{
		"write": draw("write", 3), "read_only": draw("read_only", 2),
		"read":            map[string]any{"base": rapid.SampledFrom([]string{"host", "system", "none"}).Draw(t, "base"), "deny": draw("deny", 3), "allow": draw("allow", 2)},
		"guard_workspace": rapid.Bool().Draw(t, "guard"),
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
	return string(b)
}
