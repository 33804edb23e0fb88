package guard_test

import (
	"context"
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"pinfold/guard"
	"pinfold/policy"
)

// tree is a real directory tree outside the private temporary directories.
type tree struct {
	t    *testing.T
	root string
}

func newTree(t *testing.T) *tree {
	t.Helper()
	root, err := os.MkdirTemp(testHome(t), "guard-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	root, err = filepath.EvalSymlinks(root)
	if err != nil {
		t.Fatal(err)
	}
	tr := &tree{t: t, root: root}
	tr.dirs("home", "ws", "state")
	return tr
}

// namespaceMarker is set in a test that runs again in a namespace of its own;
// it holds the home of the user outside.
const namespaceMarker = "GUARD_TEST_NAMESPACE"

func testHome(t *testing.T) string {
	t.Helper()
	if home := os.Getenv(namespaceMarker); home != "" {
		return home
	}
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	return u.HomeDir
}

func (tr *tree) path(p string) string {
	if p == "" {
		return ""
	}
	if filepath.IsAbs(p) || strings.ContainsAny(p[:1], "~{") {
		return p
	}
	return filepath.Join(tr.root, p)
}

func (tr *tree) dirs(paths ...string) {
	tr.t.Helper()
	for _, p := range paths {
		if err := os.MkdirAll(tr.path(p), 0o755); err != nil {
			tr.t.Fatal(err)
		}
	}
}

func (tr *tree) files(paths ...string) {
	tr.t.Helper()
	for _, p := range paths {
		tr.write(p, "content\n")
	}
}

func (tr *tree) write(p, content string) {
	tr.t.Helper()
	tr.dirs(filepath.Dir(tr.path(p)))
	if err := os.WriteFile(tr.path(p), []byte(content), 0o644); err != nil {
		tr.t.Fatal(err)
	}
}

// link makes a symbolic link at p. A target that starts with "/root/" lies in
// the tree.
func (tr *tree) link(target, p string) {
	tr.t.Helper()
	tr.dirs(filepath.Dir(tr.path(p)))
	if rest, ok := strings.CutPrefix(target, "/root/"); ok {
		target = tr.path(rest)
	}
	if err := os.Symlink(target, tr.path(p)); err != nil {
		tr.t.Fatal(err)
	}
}

func (tr *tree) rules(list string, as policy.DenyLook, paths ...string) []policy.PathRule {
	var out []policy.PathRule
	for i, p := range paths {
		p, optional := strings.CutPrefix(p, "?")
		out = append(out, policy.PathRule{
			Text: tr.path(p), Optional: optional, As: as, Source: list + "[" + string(rune('0'+i%10)) + "]",
		})
	}
	return out
}

func ownerOf(t *testing.T, p string) int {
	t.Helper()
	info, err := os.Stat(p)
	if err != nil {
		t.Fatal(err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		t.Fatalf("no stat structure for %q", p)
	}
	return int(st.Uid)
}

// launch is one case: paths are beneath the tree unless they are absolute.
type launch struct {
	base                                policy.ReadBase
	write, allow, readOnly, deny, empty []string
	sockets                             []string
	protect                             []string
	edit                                func(*tree, *policy.Policy, *guard.Request)
}

func (l launch) policy(tr *tree) (*policy.Policy, guard.Request) {
	p := &policy.Policy{
		Write:    tr.rules("write", "", l.write...),
		ReadOnly: tr.rules("read_only", "", l.readOnly...),
		Sockets:  tr.rules("sockets", "", l.sockets...),
		Read: policy.Read{
			Base:  l.base,
			Allow: tr.rules("read.allow", "", l.allow...),
			Deny:  append(tr.rules("read.deny", "", l.deny...), tr.rules("read.deny", policy.DenyEmpty, l.empty...)...),
		},
	}
	r := guard.Request{
		Argv: []string{"true"}, Workspace: tr.path("ws"), Home: tr.path("home"),
		Env: []string{"HOME=" + tr.path("home"), "PATH=/usr/bin:/bin"}, UID: os.Getuid(), GID: os.Getgid(),
	}
	if os.Getenv(namespaceMarker) != "" && ownerOf(tr.t, "/") != 0 {
		r.UID = ownerOf(tr.t, "/") // root outside isn't mapped
	}
	if l.edit != nil {
		l.edit(tr, p, &r)
	}
	return p, r
}

func (l launch) run(tr *tree) (*guard.Grant, error) {
	p, r := l.policy(tr)
	protected := make([]string, 0, len(l.protect))
	for _, x := range l.protect {
		protected = append(protected, tr.path(x))
	}
	g, err := guard.GuardLaunch(context.Background(), p, r, protected)
	if err == nil {
		tr.t.Cleanup(func() { g.Close() })
	}
	return g, err
}

func (l launch) grant(tr *tree) *guard.Grant {
	tr.t.Helper()
	g, err := l.run(tr)
	if err != nil {
		tr.t.Fatalf("GuardLaunch: %v", err)
	}
	return g
}

// refused checks the code of a refusal, and that it says what to do.
func (l launch) refused(tr *tree, code string) *policy.Refusal {
	tr.t.Helper()
	g, err := l.run(tr)
	if err == nil {
		tr.t.Fatalf("GuardLaunch let it through: %v", show(tr, g))
	}
	r, ok := errors.AsType[*policy.Refusal](err)
	if !ok {
		tr.t.Fatalf("GuardLaunch: %v, which is no Refusal", err)
	}
	if r.Code != code {
		tr.t.Fatalf("GuardLaunch: %v (hint: %s), want the code %q", r, r.Fix, code)
	}
	if r.Fix == "" || r.Why == "" {
		tr.t.Errorf("refusal %q has no fix or no reason: %+v", code, r)
	}
	return r
}

// show lists the entries in the tree: "rw ws".
func show(tr *tree, g *guard.Grant) []string {
	var out []string
	for _, e := range g.Entries() {
		rel, ok := strings.CutPrefix(e.Path, tr.root)
		if !ok {
			continue
		}
		word := e.Access.String()
		if e.Passable {
			word += " passable"
		}
		if e.Kind == guard.Missing {
			word += " missing"
		}
		out = append(out, word+" "+strings.TrimPrefix(rel, "/"))
	}
	return out
}
