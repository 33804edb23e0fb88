package guard_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold/guard"
	"pinfold/policy"
)

// lifting finds the exception that a fix names.
var lifting = regexp.MustCompile(`"guard_workspace": \{"except": \["([^"]+)"\]\}`)

// refusedUntilExcepted checks that a launch is refused, and let through with the
// very entry that the refusal names, which a policy must be able to hold.
func refusedUntilExcepted(tr *tree, l launch, granted string) {
	tr.t.Helper()
	fix := l.refused(tr, "guarded_write").Fix
	m := lifting.FindStringSubmatch(fix)
	if m == nil {
		tr.t.Fatalf("the fix names no exception: %s", fix)
	}
	if _, err := policy.Parse(fmt.Appendf(nil, `{"guard_workspace": {"except": [%q]}}`, m[1]), "p.json"); err != nil {
		tr.t.Fatalf("no policy can say so: %v", err)
	}
	edit := l.edit
	l.edit = func(tr *tree, p *policy.Policy, r *guard.Request) {
		if edit != nil {
			edit(tr, p, r)
		}
		p.GuardWorkspace.Except = []string{m[1]}
	}
	if got := show(tr, l.grant(tr)); !slices.Contains(got, "read-write "+granted) {
		tr.t.Errorf("with %q excepted: %q, want %q writable", m[1], got, granted)
	}
}

func workspace(dir string) func(*tree, *policy.Policy, *guard.Request) {
	return func(tr *tree, _ *policy.Policy, r *guard.Request) { r.Workspace = tr.path(dir) }
}

// checkout has everything guarded in it.
func checkout(tr *tree) {
	tr.repo("r")
	tr.files("r/.vscode/tasks.json", "r/.vscode/in/x", "r/.husky/_/pre-commit", "r/.idea/x/y", "r/.claude/hooks/in/x", "r/.claude/settings.json",
		"r/.claude/worktrees/w/f", "r/.claude/skills/s/SKILL.md", "r/.envrc", "r/.mcp.json", "r/.gitmodules", "r/.git/hooks/in/x", "r/.git/wt/f", "r/sub/f")
	tr.git(".", "clone", "-q", "--bare", "--no-hardlinks", "r", "bare.git")
	tr.git("r", "worktree", "add", "-q", tr.path("linked"))
	tr.files("bare.git/hooks/x", "bare.git/info/x", "plain/.vscode/x", "plain/.claude/agents/x", "plain/hooks/x")
}

// A write grant at a guarded name, or in one, is refused, wherever the
// workspace is; and so is such a workspace.
func TestGrantsAtGuardedNames(t *testing.T) {
	t.Parallel()
	all := newTree(t)
	checkout(all)
	all.files("home/.config/systemd/user/x.service", "home/.bashrc", "home/.claude/hooks/x", "home/.claude/plugins/p/x", "home/.vscode/extensions/x")
	for _, at := range []string{
		"r/.git/hooks", "r/.git/hooks/in", "r/.git/hooks/in/x", "r/.git/info", "r/.git/config", "r/.vscode", "r/.vscode/in", "r/.vscode/tasks.json",
		"r/.husky", "r/.husky/_", "r/.idea/x", "r/.claude/hooks", "r/.claude/hooks/in", "r/.claude/settings.json", "r/.envrc", "r/.mcp.json",
		"r/.gitmodules", "bare.git/hooks", "bare.git/info", "bare.git/config", "plain/.vscode", "plain/.claude/agents", "linked/.git",
		"r/.git/worktrees/linked/gitdir", "r/.git/worktrees/linked/commondir",
		"home/.config/systemd", "home/.config/systemd/user", "home/.bashrc", "home/.claude/hooks", "home/.claude/plugins/p", "home/.vscode/extensions",
	} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			tr := &tree{t: t, root: all.root}
			for _, ws := range []string{"r", "r/sub", "ws"} {
				refusedUntilExcepted(tr, launch{write: []string{at}, edit: workspace(ws)}, at)
			}
			info, err := os.Stat(tr.path(at))
			if err != nil {
				t.Fatal(err)
			}
			if info.IsDir() {
				refusedUntilExcepted(tr, launch{write: []string{"{workspace}"}, edit: workspace(at)}, at)
			}
		})
	}
}

// What lies near guarded names, or has them beneath, is granted as ever, and
// what is guarded in it stays read-only.
func TestGrantsBesideGuardedNames(t *testing.T) {
	t.Parallel()
	all := newTree(t)
	checkout(all)
	for name, c := range map[string]struct {
		prepare func(*tree)
		grant   string
		want    []string
		edit    func(*tree, *policy.Policy, *guard.Request)
	}{
		"an agent's directory of a repository": {
			grant: "r/.claude",
			want:  []string{"read-write r/.claude", "read-only r/.claude/hooks", "read-only r/.claude/settings.json"},
		},
		"an agent's worktree":  {grant: "r/.claude/worktrees/w", want: []string{"read-write r/.claude/worktrees/w"}},
		"a skill":              {grant: "r/.claude/skills/s", want: []string{"read-write r/.claude/skills/s"}},
		"a tree kept in .git":  {grant: "r/.git/wt", want: []string{"read-write r/.git/wt"}},
		"objects":              {grant: "r/.git/objects", want: []string{"read-write r/.git/objects"}},
		"refs of a bare one":   {grant: "bare.git/refs", want: []string{"read-write bare.git/refs"}},
		"no hooks of anything": {grant: "plain/hooks", want: []string{"read-write plain/hooks"}},
		"names that only begin so": {
			prepare: func(tr *tree) { tr.files("home/.vscode-server/data/x", "home/.claude.d/hooks/x") },
			grant:   "home/.vscode-server/data", want: []string{"read-write home/.vscode-server/data"},
		},
		"a project in ~/.config": {
			prepare: func(tr *tree) { tr.files("home/.config/nvim/init.lua") },
			grant:   "home/.config/nvim", want: []string{"read-write home/.config/nvim"},
		},
		"a project in ~/.claude": {
			prepare: func(tr *tree) { tr.repo("home/.claude/skills/foo") },
			grant:   "home/.claude/skills/foo",
			want: []string{
				"read-write home/.claude/skills/foo", "read-only home/.claude/skills/foo/.git/config",
				"read-only home/.claude/skills/foo/.git/hooks", "read-only home/.claude/skills/foo/.git/info",
			},
		},
		"a git directory": {
			grant: "r/.git",
			want: []string{
				"read-write r/.git", "read-only r/.git/config", "read-only r/.git/hooks", "read-only r/.git/info",
				"read-only r/.git/worktrees/linked/commondir", "read-only r/.git/worktrees/linked/gitdir",
			},
		},
		"the directory of worktrees": {
			grant: "r/.git/worktrees",
			want: []string{
				"read-write r/.git/worktrees", "read-only r/.git/worktrees/linked/commondir", "read-only r/.git/worktrees/linked/gitdir",
			},
		},
		"one worktree's": {
			grant: "r/.git/worktrees/linked",
			want: []string{
				"read-write r/.git/worktrees/linked", "read-only r/.git/worktrees/linked/commondir", "read-only r/.git/worktrees/linked/gitdir",
			},
		},
		"a home of the launch's own": {
			prepare: func(tr *tree) { tr.files("made/.claude/settings.json") },
			grant:   "made/.claude", want: []string{"read-write made/.claude"},
			edit: func(tr *tree, _ *policy.Policy, r *guard.Request) { r.Home = tr.path("made") },
		},
		"an agent's directory that the command's variable names": {
			prepare: func(tr *tree) { tr.files("own/.claude/settings.json") },
			grant:   "own/.claude", want: []string{"read-write own/.claude"},
			edit: func(tr *tree, p *policy.Policy, _ *guard.Request) {
				p.Env.Set = map[string]string{"CLAUDE_CONFIG_DIR": tr.path("own/.claude")}
			},
		},
		"control: one that it doesn't name": {
			prepare: func(tr *tree) { tr.files("made/.claude/settings.json") },
			grant:   "made/.claude", want: []string{"read-write made/.claude", "read-only made/.claude/settings.json"},
			edit: func(tr *tree, p *policy.Policy, _ *guard.Request) {
				p.Env.Set = map[string]string{"CLAUDE_CONFIG_DIR": tr.path("made/.claude2")}
			},
		},
		"guard_workspace off": {
			grant: "r/.git/hooks", want: []string{"read-write r/.git/hooks"},
			edit: func(_ *tree, p *policy.Policy, _ *guard.Request) { p.GuardWorkspace.Off = true },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := &tree{t: t, root: all.root}
			if c.prepare != nil {
				c.prepare(tr)
			}
			if diff := cmp.Diff(c.want, show(tr, launch{write: []string{c.grant}, edit: c.edit}.grant(tr))); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}

// An exception is the name from the checkout or the home on, where the
// workspace is the directory that the name stands in, too.
func TestExceptionsInAnAgentsDirectory(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ dir, except string }{
		"of the home":       {"home/.claude", "~/.claude/hooks"},
		"of a checkout":     {"r/.claude", ".claude/hooks"},
		"of one checkout":   {"r/.claude", "r/.claude/hooks"},
		"of all the agents": {"home/.claude", "hooks"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			tr.files(c.dir+"/hooks/x", c.dir+"/commands/x")
			l := launch{write: []string{"{workspace}"}, edit: func(tr *tree, p *policy.Policy, r *guard.Request) {
				r.Workspace = tr.path(c.dir)
				p.GuardWorkspace.Except = []string{c.except}
			}}
			if diff := cmp.Diff([]string{"read-write " + c.dir, "read-only " + c.dir + "/commands"}, show(tr, l.grant(tr))); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}

// A submodule's git directory is granted as ever; what holds such directories
// isn't.
func TestGrantsInModules(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	submodule(tr)
	tr.dirs("other")
	at := func(grant string) launch { return launch{write: []string{grant}, edit: workspace("other")} }
	want := []string{
		"read-write ws/.git/modules/lib", "read-only ws/.git/modules/lib/config", "read-only ws/.git/modules/lib/hooks",
		"read-only ws/.git/modules/lib/info",
	}
	if diff := cmp.Diff(want, show(tr, at("ws/.git/modules/lib").grant(tr))); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"read-write ws/.git/modules/lib/refs"}, show(tr, at("ws/.git/modules/lib/refs").grant(tr))); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	refusedUntilExcepted(tr, at("ws/.git/modules"), "ws/.git/modules")
	refusedUntilExcepted(tr, at("ws/.git/modules/lib/hooks"), "ws/.git/modules/lib/hooks")
	tr.dirs("ws/.git/modules/group/in")
	refusedUntilExcepted(tr, at("ws/.git/modules/group"), "ws/.git/modules/group")
}

// The repository that a grant lies in may have its hooks there.
func TestHooksOfTheRepositoryAbove(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*tree)
		grant   string
		want    []string // none where it is refused
		watch   string
	}{
		"in the grant": {
			prepare: func(tr *tree) { tr.files("r/sub/hooks/x"); tr.git("r", "config", "core.hooksPath", "sub/hooks") },
			grant:   "r/sub", want: []string{"read-write r/sub", "read-only r/sub/hooks"},
		},
		"in the grant, missing": {
			prepare: func(tr *tree) { tr.git("r", "config", "core.hooksPath", "sub/hooks") },
			grant:   "r/sub", want: []string{"read-write r/sub"}, watch: "r/sub/hooks",
		},
		"an included file": {
			prepare: func(tr *tree) { tr.write("r/sub/cfg", "[core]\n"); tr.git("r", "config", "include.path", "../sub/cfg") },
			grant:   "r/sub", want: []string{"read-write r/sub", "read-only r/sub/cfg"},
		},
		"a linked worktree's": {
			prepare: func(tr *tree) {
				tr.git("r", "worktree", "add", "-q", tr.path("linked"))
				tr.git("r", "config", "core.hooksPath", "hooks")
				tr.files("linked/hooks/x", "linked/sub/f")
			},
			grant: "linked/hooks",
		},
		"the grant": {
			prepare: func(tr *tree) { tr.git("r", "config", "core.hooksPath", "sub") }, grant: "r/sub",
		},
		"above the grant": {
			prepare: func(tr *tree) { tr.dirs("r/sub/lib"); tr.git("r", "config", "core.hooksPath", "sub") }, grant: "r/sub/lib",
		},
		"the checkout": {
			prepare: func(tr *tree) { tr.git("r", "config", "core.hooksPath", ".") }, grant: "r/sub", want: []string{"read-write r/sub"},
		},
		"a link to the grant": {
			prepare: func(tr *tree) {
				tr.files("r/sub/hooks/x")
				if err := os.RemoveAll(tr.path("r/.git/hooks")); err != nil {
					tr.t.Fatal(err)
				}
				tr.link("../sub/hooks", "r/.git/hooks")
			},
			grant: "r/sub", want: []string{"read-write r/sub", "read-only r/sub/hooks"},
		},
		"the user's own, with no repository": {
			prepare: func(tr *tree) {
				tr.files("home/githooks/x")
				tr.write("home/.gitconfig", "[core]\n\thooksPath = ~/githooks\n")
			},
			grant: "home/githooks",
		},
		"the user's own, in the grant": {
			prepare: func(tr *tree) {
				tr.files("home/dot/githooks/x")
				tr.write("home/.gitconfig", "[core]\n\thooksPath = ~/dot/githooks\n")
			},
			grant: "home/dot", want: []string{"read-write home/dot", "read-only home/dot/githooks"},
		},
		"a home for hooks is a mistake": {
			prepare: func(tr *tree) { tr.dirs("home/p"); tr.write("home/.gitconfig", "[core]\n\thooksPath = ~/\n") },
			grant:   "home/p", want: []string{"read-write home/p"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			tr.repo("r")
			tr.files("r/sub/f")
			c.prepare(tr)
			l := launch{write: []string{"{workspace}"}, edit: workspace(c.grant)}
			if c.want == nil {
				refusedUntilExcepted(tr, l, c.grant)
				return
			}
			g := l.grant(tr)
			if diff := cmp.Diff(c.want, show(tr, g)); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			watched := slices.ContainsFunc(g.Watches(), func(w guard.Watch) bool { return strings.HasSuffix(w.Path, "/"+c.watch) })
			if c.watch != "" && !watched {
				t.Errorf("%s isn't watched", c.watch)
			}
		})
	}
}

// A configuration that this user can't read is none to git, and refuses
// nothing.
func TestUnreadableHostConfig(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	tr.repo("ws")
	tr.write("home/.gitconfig", "[core]\n\thooksPath = .githooks\n")
	tr.files("ws/.githooks/x")
	l := launch{write: []string{"{workspace}"}}
	if got := show(tr, l.grant(tr)); !slices.Contains(got, "read-only ws/.githooks") {
		t.Fatalf("control: %q", got)
	}
	tr.repo("r")
	tr.dirs("r/sub")
	tr.write("file/.git", "gitdir: "+tr.path("r/.git")+"\n")
	tr.dirs("file/sub")
	for _, p := range []string{"home/.gitconfig", "r/.git/config", "file/.git"} {
		if err := os.Chmod(tr.path(p), 0); err != nil {
			t.Fatal(err)
		}
	}
	l.grant(tr)
	for _, ws := range []string{"r/sub", "file/sub"} {
		l.edit = workspace(ws)
		if diff := cmp.Diff([]string{"read-write " + ws}, show(tr, l.grant(tr))); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
	}
}
