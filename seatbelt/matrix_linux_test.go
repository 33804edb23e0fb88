package seatbelt_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/netip"
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
	reads  = []string{"file-read-data", "file-read-xattr", "process-exec", "process-exec-interpreter", "file-map-executable", "file-lock"}
	looks  = []string{"file-read-metadata", "file-test-existence"}
	writes = []string{
		"file-write-create", "file-write-data", "file-write-unlink", "file-write-mode", "file-write-owner", "file-write-flags",
		"file-write-times", "file-write-xattr", "file-write-acl", "file-write-setugid", "file-mknod",
	}
	makes = []string{"file-write-create", "file-write-unlink", "file-mknod"}
	never = []string{"file-link", "file-clone", "file-search", "file-mount", "file-chroot", "file-issue-extension", "file-ioctl"}
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
	o := seatbelt.Options{Proxy: true, HostPorts: g.Network().HostPorts}
	for _, e := range g.Network().Expose {
		o.Listen = append(o.Listen, e.Inside)
	}
	text, err := seatbelt.Profile(g, o)
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

func (c *compared) ask(t failer, op, path string) bool {
	t.Helper()
	return c.askFor(t, sbpl.Query{Op: op, Path: path})
}

// askFor evaluates under every reading, which must agree.
func (c *compared) askFor(t failer, q sbpl.Query) bool {
	t.Helper()
	c.cases++
	verdicts, err := c.profile.EvalAll(q, c.params)
	if err != nil {
		t.Fatalf("%+v: %v", q, err)
	}
	for i, v := range verdicts {
		if v.Allow != verdicts[0].Allow {
			t.Fatalf("%+v: the readings disagree: %v under the first, %v under %d", q, verdicts[0].Allow, v.Allow, i)
		}
	}
	return verdicts[0].Allow
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
		if got := c.ask(t, op, path); got != readable {
			t.Fatalf("%s %s: the profile says %v, the guard %+v", op, path, got, e)
		}
	}
	c.looked(t, path, readable)
	c.connects(t, path)
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

// absent: what isn't there is refused all the same.
func (c *compared) absent(t failer, path string) {
	t.Helper()
	if e, err := c.grant.Explain(path); err != nil || e.Readable || e.Writable {
		t.Fatalf("%s: the guard says %+v, %v", path, e, err)
	}
	for _, op := range []string{"file-read-data", "process-exec", "file-write-create"} {
		if c.ask(t, op, path) || c.ask(t, op, path+"/x") {
			t.Fatalf("%s %s: allowed", op, path)
		}
	}
}

// looked: a directory on the way to something granted may be looked up, as
// what is readable may, and nothing else.
func (c *compared) looked(t failer, path string, readable bool) {
	t.Helper()
	want := readable || slices.ContainsFunc(c.grant.Entries(), func(e guard.Entry) bool {
		return e.Access >= guard.ReadOnly && strings.HasPrefix(e.Path, path+"/")
	})
	for _, op := range looks {
		if got := c.ask(t, op, path); got != want && !c.onLink(path) {
			t.Fatalf("%s %s: the profile says %v", op, path, got)
		}
	}
}

// onLink: links, and the directories above them, may be looked up too.
func (c *compared) onLink(path string) bool {
	return slices.ContainsFunc(c.grant.Links(), func(l guard.Link) bool { return strings.HasPrefix(l.Path+"/", path+"/") })
}

// connects: a unix socket is reached where the Grant lists it, and bound
// nowhere in the tree.
func (c *compared) connects(t failer, path string) {
	t.Helper()
	listed := slices.ContainsFunc(c.grant.Sockets(), func(s guard.Socket) bool { return s.Path == path })
	for op, want := range map[string]bool{"network-outbound": listed, "network-bind": false, "network-inbound": false} {
		if got := c.askFor(t, sbpl.Query{Op: op, Proto: "unix-socket", Path: path}); got != want {
			t.Fatalf("%s %s: the profile says %v", op, path, got)
		}
	}
}

// reaches: of the network, the proxy's port and what the policy lists.
func (c *compared) reaches(t failer) {
	t.Helper()
	n := c.grant.Network()
	for _, host := range []string{"127.0.0.1", "::1", "192.0.2.1", "2001:db8::1", "169.254.169.254", "10.0.0.1"} {
		for _, port := range []uint16{3128, 5432, 3000, 80, 53} {
			at := netip.AddrPortFrom(netip.MustParseAddr(host), port)
			loopback := at.Addr().IsLoopback()
			out := loopback && (port == 3128 || slices.Contains(n.HostPorts, port))
			listen := slices.ContainsFunc(n.Expose, func(e policy.Expose) bool { return e.Inside == port })
			for _, q := range []struct {
				sbpl.Query
				want bool
			}{
				{sbpl.Query{Op: "network-outbound", Proto: "tcp", Remote: at}, out},
				{sbpl.Query{Op: "network-outbound", Proto: "udp", Remote: at}, false},
				{sbpl.Query{Op: "network-bind", Proto: "tcp", Local: at}, listen},
				{sbpl.Query{Op: "network-inbound", Proto: "tcp", Local: at}, listen},
				{sbpl.Query{Op: "network-bind", Proto: "udp", Local: at}, false},
			} {
				if got := c.askFor(t, q.Query); got != q.want {
					t.Fatalf("%+v: the profile says %v", q.Query, got)
				}
			}
		}
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
