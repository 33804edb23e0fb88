package seatbelt_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"pinfold/guard"
	"pinfold/policy"
	"pinfold/seatbelt"
	"pinfold/seatbelt/sbpl"
)

// The operations that are asked about, by what the guard calls them.
var (
	reads  = []string{"file-read-data", "file-read-xattr", "process-exec", "file-map-executable", "file-lock"}
	writes = []string{
		"file-write-create", "file-write-data", "file-write-unlink", "file-write-mode", "file-write-owner", "file-write-flags",
		"file-write-times", "file-write-xattr", "file-write-acl", "file-write-setugid", "file-mknod",
	}
	makes = []string{"file-write-create", "file-write-unlink", "file-mknod"}
	never = []string{"file-link", "file-clone"}
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
		if err != nil {
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
		"as empty":         `{"write": ["{workspace}"], "read": {"deny": [{"path": "{workspace}/secrets", "as": "empty"}]}}`,
		"a file":           `{"write": ["{workspace}/src/main.go"]}`,
		"two":              `{"write": ["{workspace}/src", "{workspace}/sub"], "read_only": ["{workspace}/src/deep"]}`,
	}
}

// compared is a Grant beside the profile made of it.
type compared struct {
	grant    *guard.Grant
	profile  *sbpl.Profile
	params   map[string]string
	pins     map[string]bool
	stricter map[string]bool // directories that could carry a name into place
	unmade   []string
	cases    int
}

func compare(t failer, g *guard.Grant) *compared {
	t.Helper()
	text, err := seatbelt.Profile(g, seatbelt.Options{Proxy: true})
	if err != nil {
		t.Fatalf("no profile: %v", err)
	}
	c := &compared{grant: g, params: text.Map(), pins: map[string]bool{}, stricter: map[string]bool{}}
	c.params["TTY"] = "/dev/null"
	if c.profile, err = sbpl.Parse(text.At(3128, "pinfold-TAG")); err != nil {
		t.Fatalf("%v\n%s", err, text.Profile)
	}
	for _, p := range g.Pins() {
		c.pins[p.Path] = true
	}
	for _, e := range g.Entries() {
		c.pins[e.Path] = c.pins[e.Path] || e.Access == guard.ReadWrite && e.Kind == guard.Dir
	}
	for _, e := range g.Entries() {
		if e.Kind == guard.Missing && e.Access != guard.ReadWrite {
			c.note(e.Path)
		}
	}
	for _, w := range g.Watches() {
		c.note(w.Path)
	}
	return c
}

// note works out, in its own way, which directories an unmade name needs.
func (c *compared) note(p string) {
	root := ""
	for _, e := range c.grant.Entries() {
		if e.Path != p && e.Kind != guard.Missing && strings.HasPrefix(p, e.Path+"/") {
			root = map[bool]string{true: e.Path}[e.Access == guard.ReadWrite]
		}
	}
	if root == "" {
		return
	}
	c.unmade = append(c.unmade, p)
	for d := filepath.Dir(p); len(d) > len(root); d = filepath.Dir(d) {
		c.stricter[d] = true
	}
}

type failer interface {
	Helper()
	Fatalf(string, ...any)
}

// ask evaluates under every reading, which must agree.
func (c *compared) ask(t failer, op, path string) bool {
	t.Helper()
	c.cases++
	var first bool
	for i, s := range sbpl.AllSemantics() {
		v, err := c.profile.Eval(sbpl.Query{Op: op, Path: path}, c.params, s)
		if err != nil {
			t.Fatalf("%s %s: %v", op, path, err)
		}
		if i > 0 && v.Allow != first {
			t.Fatalf("%s %s: the readings disagree", op, path)
		}
		first = v.Allow
	}
	return first
}

// check compares every operation at a path with what the guard says of it.
// The path must be canonical: that is what the kernel asks by.
func (c *compared) check(t failer, path string) {
	t.Helper()
	e, err := c.grant.Explain(path)
	if err != nil || e.Canonical != path {
		t.Fatalf("cannot explain %s: %+v, %v", path, e, err)
	}
	readable := e.Looks == "read-only" || e.Looks == "read-write"
	for _, op := range reads {
		if got := c.ask(t, op, path); got != readable && !c.nowhere(e) {
			t.Fatalf("%s %s: the profile says %v, the guard %+v", op, path, got, e)
		}
	}
	for _, op := range writes {
		want := e.Writable && !(c.pins[path] && (op == "file-write-unlink" || op == "file-write-create")) && !(c.stricter[path] && slices.Contains(makes, op))
		if got := c.ask(t, op, path); got != want {
			t.Fatalf("%s %s: the profile says %v, the guard %+v", op, path, got, e)
		}
	}
	for _, op := range never {
		if c.ask(t, op, path) {
			t.Fatalf("%s %s: allowed", op, path)
		}
	}
	if c.ask(t, "file-read-data", "/System/Volumes/Data"+path) {
		t.Fatalf("%s can be read by its other name", path)
	}
}

// nowhere: nothing is there, and nothing can be made there from inside, so the
// Grant has no entry for the rule, on no system.
func (c *compared) nowhere(e guard.Explanation) bool {
	return e.Kind == "missing" && !e.Writable && !slices.ContainsFunc(c.grant.Entries(), func(n guard.Entry) bool { return n.Path == e.At })
}

// TestMatrixOfGrants: one grant, two back ends, the same answers.
func TestMatrixOfGrants(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	paths, total, refused := tr.paths(t), 0, 0
	for name, document := range documents() {
		g, err := tr.launch(t, document)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			refused++
			continue
		}
		c := compare(t, g)
		for i, p := range paths {
			// The interesting places always, of the others one in eight.
			if i%8 == total%8 || c.stricter[p] || c.pins[p] || slices.Contains(c.unmade, p) {
				c.check(t, p)
			}
		}
		for _, e := range g.Entries() {
			c.check(t, e.Path)
			c.check(t, e.Path+".new")
		}
		c.spellings(t)
		total += c.cases
		must(t, g.Close())
	}
	t.Logf("%d cases of %d rule sets", total, len(documents())-refused)
	if total < 10_000 {
		t.Errorf("only %d cases", total)
	}
}

// spellings asks for names that must not be made in other spellings.
func (c *compared) spellings(t failer) {
	for _, p := range c.unmade {
		dir, name := filepath.Split(p)
		for _, other := range []string{strings.ToUpper(name), strings.ReplaceAll(name, "s", "\u017f"), strings.ReplaceAll(name, "k", "\u212a"), strings.ReplaceAll(name, "fi", "\ufb01")} {
			for _, op := range makes {
				if c.ask(t, op, dir+other) {
					t.Fatalf("%s %s: allowed, though %s isn't", op, dir+other, p)
				}
			}
		}
	}
	// What stands there isn't replaced by another spelling of it.
	for _, e := range c.grant.Entries() {
		dir, name := filepath.Split(e.Path)
		above, err := c.grant.Explain(strings.TrimSuffix(dir, "/"))
		if err != nil || !above.Writable || e.Kind == guard.Missing || e.Access == guard.ReadWrite && e.Kind != guard.Dir {
			continue
		}
		for _, other := range []string{strings.ToUpper(name), strings.ToLower(name), strings.ReplaceAll(name, "s", "\u017f")} {
			if c.ask(t, "file-write-create", dir+other) {
				t.Fatalf("%s may replace %s", dir+other, e.Path)
			}
		}
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
