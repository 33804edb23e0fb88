package guard_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold/guard"
	"pinfold/policy"
)

// git runs the host's git in the tree, without the user's configuration.
func (tr *tree) git(dir string, args ...string) {
	tr.t.Helper()
	cmd := exec.CommandContext(tr.t.Context(), "git", append([]string{"-c", "protocol.file.allow=always", "-C", tr.path(dir)}, args...)...)
	cmd.Env = append(os.Environ(), "HOME="+tr.path("home"), "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
	if out, err := cmd.CombinedOutput(); err != nil {
		tr.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// repo makes a repository with one commit.
func (tr *tree) repo(dir string) {
	tr.t.Helper()
	tr.dirs(dir)
	tr.git(dir, "init", "-q")
	tr.write(dir+"/README", "read me\n")
	tr.git(dir, "add", "-A")
	tr.git(dir, "commit", "-qm", "first")
}

// guardedNames are the read-only entries and the watches beneath a directory.
func guardedNames(tr *tree, g *guard.Grant, dir string) (covered, watched []string) {
	prefix := tr.path(dir) + "/"
	for _, e := range g.Entries() {
		if rest, ok := strings.CutPrefix(e.Path, prefix); ok && e.Access == guard.ReadOnly {
			covered = append(covered, rest)
		}
	}
	for _, w := range g.Watches() {
		if rest, ok := strings.CutPrefix(w.Path, prefix); ok {
			watched = append(watched, rest)
		}
	}
	return covered, watched
}

func TestGuardedRepositories(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*tree)
		dir     string // where to look; "" means the workspace
		covered []string
		watched []string // some that must be watched
		edit    func(*tree, *policy.Policy, *guard.Request)
	}{
		"a repository": {
			prepare: func(tr *tree) { tr.repo("ws") },
			covered: []string{".git/config", ".git/hooks", ".git/info"},
			watched: []string{".git/commondir", ".git/config.worktree", ".git/modules", ".git/worktrees", ".vscode"},
		},
		"no repository": {
			prepare: func(tr *tree) { tr.files("ws/f") },
			watched: []string{".vscode", ".gitmodules"},
		},
		"nested repositories": {
			prepare: func(tr *tree) { tr.repo("ws/a/deep"); tr.repo("ws/b"); tr.files("ws/b/.envrc") },
			covered: []string{
				"a/deep/.git/config", "a/deep/.git/hooks", "a/deep/.git/info",
				"b/.envrc", "b/.git/config", "b/.git/hooks", "b/.git/info",
			},
			watched: []string{"a/deep/.vscode", "b/.git/commondir"},
		},
		"a submodule": {
			prepare: func(tr *tree) {
				tr.repo("origin")
				tr.repo("ws")
				tr.git("ws", "submodule", "-q", "add", "file://"+tr.path("origin"), "lib/sub")
			},
			covered: []string{
				".git/config", ".git/hooks", ".git/info", ".git/modules",
				".git/modules/lib/sub/config", ".git/modules/lib/sub/hooks", ".git/modules/lib/sub/info",
				".gitmodules", "lib/sub/.git",
			},
			watched: []string{".git/modules/lib/sub/commondir", ".git/modules/lib/sub/modules", ".git/worktrees", "lib/sub/.vscode"},
		},
		"a linked worktree beside its repository": {
			prepare: func(tr *tree) { tr.repo("ws/main"); tr.git("ws/main", "worktree", "add", "-q", "../other") },
			covered: []string{
				"main/.git/config", "main/.git/hooks", "main/.git/info",
				"main/.git/worktrees/other/commondir", "main/.git/worktrees/other/gitdir", "other/.git",
			},
			watched: []string{"main/.git/worktrees", "main/.git/worktrees/other/config.worktree", "main/.git/worktrees/other/modules"},
		},
		"a bare repository": {
			prepare: func(tr *tree) { tr.repo("r"); tr.git(".", "clone", "-q", "--bare", "--no-hardlinks", "r", "ws/b.git") },
			covered: []string{"b.git/config", "b.git/hooks", "b.git/info"},
			watched: []string{"b.git/commondir"},
		},
		"hooks elsewhere": {
			prepare: func(tr *tree) {
				tr.repo("ws")
				tr.files("ws/tools/hooks/pre-commit")
				tr.git("ws", "config", "core.hooksPath", "tools/hooks")
			},
			covered: []string{".git/config", ".git/hooks", ".git/info", "tools/hooks"},
		},
		"hooks elsewhere that are missing": {
			prepare: func(tr *tree) { tr.repo("ws"); tr.git("ws", "config", "core.hooksPath", "tools/hooks") },
			covered: []string{".git/config", ".git/hooks", ".git/info"},
			watched: []string{"tools/hooks"},
		},
		"hooks that the user's own configuration names": {
			prepare: func(tr *tree) {
				tr.repo("ws")
				tr.files("ws/.githooks/x")
				tr.write("home/.gitconfig", "[core]\n\thooksPath = .githooks\n")
			},
			covered: []string{".git/config", ".git/hooks", ".git/info", ".githooks"},
		},
		"an included file": {
			prepare: func(tr *tree) {
				tr.repo("ws")
				tr.write("ws/shared.cfg", "[core]\n\thooksPath = \"my hooks\"\n")
				tr.files("ws/my hooks/x")
				tr.git("ws", "config", "include.path", "../shared.cfg")
			},
			covered: []string{".git/config", ".git/hooks", ".git/info", "my hooks", "shared.cfg"},
		},
		"excepted": {
			prepare: func(tr *tree) { tr.repo("ws"); tr.repo("ws/in") },
			edit: func(_ *tree, p *policy.Policy, _ *guard.Request) {
				p.GuardWorkspace.Except = []string{".git/config", ".git/info"}
			},
			covered: []string{".git/hooks", "in/.git/hooks"},
		},
		"guard_workspace off": {
			prepare: func(tr *tree) { tr.repo("ws") },
			edit:    func(_ *tree, p *policy.Policy, _ *guard.Request) { p.GuardWorkspace.Off = true },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			c.prepare(tr)
			g := launch{write: []string{"{workspace}"}, edit: c.edit}.grant(tr)
			covered, watched := guardedNames(tr, g, "ws")
			if diff := cmp.Diff(c.covered, covered); diff != "" {
				t.Errorf("covered (-want +got):\n%s", diff)
			}
			for _, w := range c.watched {
				if !slices.Contains(watched, w) {
					t.Errorf("%q isn't watched; watched are %q", w, watched)
				}
			}
		})
	}
}

func TestRepositoriesThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*tree)
		code    string
	}{
		"hooks that are a link": {
			prepare: func(tr *tree) {
				tr.repo("ws")
				tr.dirs("hooks")
				if err := os.RemoveAll(tr.path("ws/.git/hooks")); err != nil {
					tr.t.Fatal(err)
				}
				tr.link("/root/hooks", "ws/.git/hooks")
			},
			code: "reaimable_symlink",
		},
		".git that is a link": {
			prepare: func(tr *tree) { tr.repo("r"); tr.link("/root/r/.git", "ws/.git") },
			code:    "reaimable_symlink",
		},
		"hooks in the checkout itself": {
			prepare: func(tr *tree) { tr.repo("ws"); tr.git("ws", "config", "core.hooksPath", ".") },
			code:    "hooks_path",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			c.prepare(tr)
			launch{write: []string{"{workspace}"}}.refused(tr, c.code)
		})
	}
}

// A workspace whose git directory lies elsewhere.
func TestGitElsewhere(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(*tree)
		launch  launch
		want    []string
		note    string
	}{
		"a linked worktree": {
			prepare: func(tr *tree) { tr.repo("main"); tr.git("main", "worktree", "add", "-q", tr.path("ws/wt")) },
			want: []string{
				"read-write main/.git/logs", "read-write main/.git/objects", "read-write main/.git/refs",
				"read-write main/.git/worktrees/wt", "read-only main/.git/worktrees/wt/commondir",
				"read-only main/.git/worktrees/wt/gitdir", "read-write ws/wt", "read-only ws/wt/.git",
			},
			note: "may be written",
		},
		"a linked worktree of a bare repository without logs": {
			prepare: func(tr *tree) {
				tr.repo("origin")
				tr.git(".", "clone", "-q", "--bare", "file://"+tr.path("origin"), "bare")
				tr.git("bare", "worktree", "add", "-q", tr.path("ws/wt"))
			},
			want: []string{
				"read-write bare/objects", "read-write bare/refs", "read-write bare/worktrees/wt", "read-only bare/worktrees/wt/commondir",
				"read-only bare/worktrees/wt/gitdir", "read-write ws/wt", "read-only ws/wt/.git",
			},
			note: "bare/logs",
		},
		"a linked worktree that the repository doesn't know": {
			prepare: func(tr *tree) {
				tr.repo("main")
				tr.git("main", "worktree", "add", "-q", tr.path("other"))
				tr.write("ws/wt/.git", "gitdir: "+tr.path("main/.git/worktrees/other")+"\n")
			},
			want: []string{"read-write ws/wt", "read-only ws/wt/.git"},
		},
		"a linked worktree of a denied repository": {
			prepare: func(tr *tree) { tr.repo("main"); tr.git("main", "worktree", "add", "-q", tr.path("ws/wt")) },
			launch:  launch{deny: []string{"main"}},
			want:    []string{"deny main", "read-write ws/wt", "read-only ws/wt/.git"},
			note:    "git can't commit",
		},
		"a linked worktree of a read-only repository": {
			prepare: func(tr *tree) { tr.repo("main"); tr.git("main", "worktree", "add", "-q", tr.path("ws/wt")) },
			launch:  launch{readOnly: []string{"main"}},
			want:    []string{"read-write ws/wt", "read-only ws/wt/.git"},
			note:    "read_only[0]",
		},
		"a linked worktree whose objects have further names": {
			prepare: func(tr *tree) {
				tr.repo("origin")
				tr.git(".", "clone", "-q", "origin", "main")
				tr.git("main", "worktree", "add", "-q", tr.path("ws/wt"))
			},
			want: []string{"read-write ws/wt", "read-only ws/wt/.git"},
			note: "--no-hardlinks",
		},
		"a linked worktree of a repository in the protected set": {
			prepare: func(tr *tree) { tr.repo("state/main"); tr.git("state/main", "worktree", "add", "-q", tr.path("ws/wt")) },
			launch:  launch{protect: []string{"state"}},
			want:    []string{"deny state", "read-write ws/wt", "read-only ws/wt/.git"},
			note:    "git can't commit",
		},
		"a submodule": {
			prepare: func(tr *tree) {
				tr.repo("origin")
				tr.repo("ws")
				tr.git("ws", "submodule", "-q", "add", "file://"+tr.path("origin"), "wt")
			},
			want: []string{
				"read-write ws/.git/modules/wt", "read-only ws/.git/modules/wt/config", "read-only ws/.git/modules/wt/hooks",
				"read-only ws/.git/modules/wt/info", "read-write ws/wt", "read-only ws/wt/.git",
			},
			note: "a submodule",
		},
		"a part of a repository": {
			prepare: func(tr *tree) { tr.repo("ws"); tr.dirs("ws/wt") },
			want:    []string{"read-write ws/wt"},
			note:    "part of the repository",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTree(t)
			c.prepare(tr)
			c.launch.write = []string{"{workspace}"}
			c.launch.edit = func(tr *tree, _ *policy.Policy, r *guard.Request) { r.Workspace = tr.path("ws/wt") }
			g := c.launch.grant(tr)
			if diff := cmp.Diff(c.want, show(tr, g)); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
			if notes := strings.Join(g.Notes(), "\n"); !strings.Contains(notes, c.note) || c.note == "" && strings.Contains(notes, "git") {
				t.Errorf("notes = %q, want one with %q", notes, c.note)
			}
		})
	}
}
