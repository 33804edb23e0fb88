package guard_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pinfold/guard"
	"pinfold/policy"
)

func (tr *tree) hard(from, to string) {
	tr.t.Helper()
	tr.dirs(filepath.Dir(tr.path(to)))
	if err := os.Link(tr.path(from), tr.path(to)); err != nil {
		tr.t.Fatal(err)
	}
}

func TestHardLinks(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*tree)
		launch  launch
		code    string
		fix     string
	}{
		"a name outside": {
			prepare: func(tr *tree) { tr.files("out"); tr.hard("out", "ws/a/in") },
			launch:  launch{write: []string{"{workspace}"}}, code: "hard_link", fix: "cp -p",
		},
		"both names inside": {
			prepare: func(tr *tree) { tr.files("ws/a/one"); tr.hard("ws/a/one", "ws/b/two") },
			launch:  launch{write: []string{"{workspace}"}},
		},
		"names in two grants": {
			prepare: func(tr *tree) { tr.files("ws/one"); tr.hard("ws/one", "other/two") },
			launch:  launch{write: []string{"{workspace}", "other"}},
		},
		"one of three outside": {
			prepare: func(tr *tree) { tr.files("ws/one"); tr.hard("ws/one", "ws/two"); tr.hard("ws/one", "out") },
			launch:  launch{write: []string{"{workspace}"}}, code: "hard_link",
		},
		"the other name is covered": {
			prepare: func(tr *tree) { tr.files("ws/ro/one"); tr.hard("ws/ro/one", "ws/two") },
			launch:  launch{write: []string{"{workspace}"}, readOnly: []string{"ws/ro"}}, code: "hard_link",
		},
		"the other name is a guarded file": {
			prepare: func(tr *tree) { tr.repo("ws"); tr.hard("ws/.git/config", "ws/two") },
			launch:  launch{write: []string{"{workspace}"}}, code: "hard_link",
		},
		"a covered name after a grant in what is covered": {
			prepare: func(tr *tree) {
				tr.dirs("ws/ro/rw")
				tr.files("ws/zz/one")
				tr.hard("ws/zz/one", "ws/two")
			},
			launch: launch{write: []string{"{workspace}", "ws/ro/rw"}, readOnly: []string{"ws/ro", "ws/zz"}}, code: "hard_link",
		},
		"both names are covered": {
			prepare: func(tr *tree) { tr.files("out"); tr.hard("out", "ws/ro/in") },
			launch:  launch{write: []string{"{workspace}"}, readOnly: []string{"ws/ro"}},
		},
		"a file granted by itself": {
			prepare: func(tr *tree) { tr.files("out"); tr.hard("out", "f") },
			launch:  launch{write: []string{"f"}}, code: "hard_link",
		},
		"nothing may be written": {
			prepare: func(tr *tree) { tr.files("out"); tr.hard("out", "ws/in") },
		},
		"a package store": {
			prepare: func(tr *tree) { tr.files("store/v3/x"); tr.hard("store/v3/x", "ws/node_modules/x/index.js") },
			launch:  launch{write: []string{"{workspace}"}}, code: "hard_link", fix: "package-import-method",
		},
		"a package store that is allowed": {
			prepare: func(tr *tree) { tr.files("store/v3/x"); tr.hard("store/v3/x", "ws/node_modules/x/index.js") },
			launch: launch{write: []string{"{workspace}"}, edit: func(tr *tree, p *policy.Policy, _ *guard.Request) {
				p.HardLinks.AllowFrom = tr.rules("hard_links.allow_from", "", "store")
			}},
		},
		"a further name beside an allowed store": {
			prepare: func(tr *tree) {
				tr.files("store/x")
				tr.hard("store/x", "ws/x")
				tr.hard("store/x", "out")
			},
			launch: launch{write: []string{"{workspace}"}, edit: func(tr *tree, p *policy.Policy, _ *guard.Request) {
				p.HardLinks.AllowFrom = tr.rules("hard_links.allow_from", "", "store")
			}},
			code: "hard_link",
		},
		"a local clone": {
			prepare: func(tr *tree) { tr.repo("r"); tr.git(".", "clone", "-q", "r", "ws/c") },
			launch:  launch{write: []string{"{workspace}"}}, code: "hard_link", fix: "--no-hardlinks",
		},
		"uv": {
			prepare: func(tr *tree) { tr.files("cache/x"); tr.hard("cache/x", "ws/.venv/lib/python3/site-packages/x.py") },
			launch:  launch{write: []string{"{workspace}"}}, code: "hard_link", fix: "--link-mode=copy",
		},
		"too many entries": {
			prepare: func(tr *tree) {
				for i := range 20 {
					tr.files(fmt.Sprintf("ws/%d", i))
				}
			},
			launch: launch{write: []string{"{workspace}"}, edit: func(_ *tree, _ *policy.Policy, r *guard.Request) { r.MaxEntries = 10 }},
			code:   "too_many_entries", fix: "--max-entries",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			c.prepare(tr)
			if c.code == "" {
				c.launch.grant(tr)
				return
			}
			if r := c.launch.refused(tr, c.code); !strings.Contains(r.Fix, c.fix) {
				t.Errorf("fix = %q, want one with %q", r.Fix, c.fix)
			}
		})
	}
}

func TestHardLinksOfDeniedFiles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*tree)
		launch  launch
		code    string
	}{
		"a default deny": {
			prepare: func(tr *tree) { tr.files("home/.netrc"); tr.hard("home/.netrc", "copy") }, code: "hard_link_denied",
		},
		"a default deny that is lifted": {
			prepare: func(tr *tree) { tr.files("home/.netrc"); tr.hard("home/.netrc", "copy") },
			launch:  launch{allow: []string{"~/.netrc"}},
		},
		"a file in a denied directory": {
			prepare: func(tr *tree) { tr.files("s/in/key"); tr.hard("s/in/key", "copy") },
			launch:  launch{deny: []string{"s"}}, code: "hard_link_denied",
		},
		"a file in the protected set": {
			prepare: func(tr *tree) { tr.files("state/key"); tr.hard("state/key", "copy") },
			launch:  launch{protect: []string{"state"}}, code: "hard_link_denied",
		},
		"both names denied": {
			prepare: func(tr *tree) { tr.files("s/key"); tr.hard("s/key", "s/in/copy") },
			launch:  launch{deny: []string{"s"}},
		},
		"names in two denied places": {
			prepare: func(tr *tree) { tr.files("s/key"); tr.hard("s/key", "t/copy"); tr.hard("s/key", "f") },
			launch:  launch{deny: []string{"s", "t", "f"}},
		},
		"a name in an exception": {
			prepare: func(tr *tree) { tr.files("s/key"); tr.hard("s/key", "s/pub/copy") },
			launch:  launch{deny: []string{"s"}, allow: []string{"s/pub"}}, code: "hard_link_denied",
		},
		"a denied path beneath a denied one": {
			prepare: func(tr *tree) { tr.files("s/key"); tr.hard("s/key", "s/copy") },
			launch:  launch{deny: []string{"s", "s/key"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			c.prepare(tr)
			if c.code == "" {
				c.launch.grant(tr)
				return
			}
			r := c.launch.refused(tr, c.code)
			find, _, _ := strings.Cut(r.Fix, ";")
			out, err := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(find, "find / ", "find "+tr.root+" ", 1)).Output()
			if n := strings.Count(string(out), "\n"); err != nil || n != 2 {
				t.Errorf("%s finds %d names (%v), want 2", find, n, err)
			}
		})
	}
}

// A large denied tree is remembered in the state directory for a while, and
// one that holds too much is named.
func TestLargeDeniedTrees(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	for i := range 600 {
		tr.files(fmt.Sprintf("s/%d/%d", i%10, i))
	}
	if err := os.Chmod(tr.path("state"), 0o700); err != nil {
		t.Fatal(err)
	}
	l := launch{deny: []string{"s"}, edit: func(tr *tree, _ *policy.Policy, r *guard.Request) { r.State = tr.path("state") }}
	l.grant(tr)
	cache := tr.path("state/denied-trees.json")
	if text, err := os.ReadFile(cache); err != nil || !strings.Contains(string(text), tr.path("s")) {
		t.Fatalf("cache = %q, %v", text, err)
	}
	tr.hard("s/1/1", "copy")
	l.grant(tr) // remembered
	if err := os.Remove(cache); err != nil {
		t.Fatal(err)
	}
	l.refused(tr, "hard_link_denied")
	for i := range 20_000 {
		if err := os.WriteFile(tr.path(fmt.Sprintf("s/%d/more-%d", i%10, i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if notes := strings.Join(l.grant(tr).Notes(), "\n"); !strings.Contains(notes, "not looked through") {
		t.Errorf("notes = %q", notes)
	}
}

func TestAllowedStoreIsNamedInThePlan(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.files("store/x")
	tr.hard("store/x", "ws/x")
	g := launch{write: []string{"{workspace}"}, edit: func(tr *tree, p *policy.Policy, _ *guard.Request) {
		p.HardLinks.AllowFrom = tr.rules("hard_links.allow_from", "", "store")
	}}.grant(tr)
	if notes := strings.Join(g.Notes(), "\n"); !strings.Contains(notes, "1 files") || !strings.Contains(notes, tr.path("store")) {
		t.Errorf("notes = %q", notes)
	}
}

// A workspace in which files get and lose second names all the while is no
// reason to refuse.
func TestNamesThatComeAndGo(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	for i := range 300 {
		tr.files(fmt.Sprintf("ws/%d/f", i))
	}
	ctx, stop := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	busy.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			a, b := tr.path(fmt.Sprintf("ws/%d/f", i%300)), tr.path(fmt.Sprintf("ws/%d/g", (i+150)%300))
			_ = os.Link(a, b)
			_ = os.Remove(b)
		}
	})
	defer busy.Wait()
	defer stop()
	refused := 0
	for range 50 {
		g, err := launch{write: []string{"{workspace}"}}.run(tr)
		if err != nil {
			refused++
			continue
		}
		g.Close()
	}
	if refused > 5 {
		t.Errorf("%d of 50 launches were refused", refused)
	}
}

func TestCancelledLaunch(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	p, r := launch{write: []string{"{workspace}"}}.policy(tr)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := guard.GuardLaunch(ctx, p, r, nil)
	refusal, ok := errors.AsType[*policy.Refusal](err)
	if !ok || refusal.Code != "cancelled" || !errors.Is(err, policy.ErrUnavailable) || !errors.Is(err, context.Canceled) {
		t.Errorf("GuardLaunch: %v, want it cancelled", err)
	}
}

// The user inside is the one who owns the directory, and can open it up.
func TestUnreadableDirectoryInAGrant(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		t.Skip("root reads everything")
	}
	tr := newTree(t)
	tr.dirs("ws/closed")
	if err := os.Chmod(tr.path("ws/closed"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(tr.path("ws/closed"), 0o700) })
	launch{write: []string{"{workspace}"}}.refused(tr, "unreadable")
}

// The cure that a refusal names must cure.
func TestCopyCureWorks(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.files("out")
	tr.hard("out", "ws/it's in")
	l := launch{write: []string{"{workspace}"}}
	fix, _, _ := strings.Cut(l.refused(tr, "hard_link").Fix, ", or")
	if out, err := exec.CommandContext(t.Context(), "sh", "-c", fix).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", fix, err, out)
	}
	l.grant(tr)
}
