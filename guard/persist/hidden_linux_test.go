package persist_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold/guard/persist"
	"pinfold/policy"
)

// places are the directories beneath a root, as the guard remembers them.
type places map[string]bool

func (places) Complete() bool { return true }

func (p places) Had(in, ino uint64, name string) bool { return p[fmt.Sprint(in, ino, name)] }

func placesIn(t *testing.T, root string) places {
	t.Helper()
	p := places{}
	ino := func(dir string) uint64 {
		info, err := os.Lstat(dir)
		if err != nil {
			t.Fatal(err)
		}
		return info.Sys().(*syscall.Stat_t).Ino
	}
	err := filepath.WalkDir(root, func(dir string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() && dir != root {
			p[fmt.Sprint(ino(filepath.Dir(dir)), ino(dir), e.Name())] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func do(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A directory that is moved to where its contents are run brings them along;
// one that merely gains a name doesn't.
func TestMovedDirectories(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	tree(t, root, map[string]string{
		"node_modules/x/gh/workflows/e.yml": "a", "node_modules/x/vs/tasks.json": "a", "node_modules/x/cl/.envrc": "a",
		"old/.github/workflows/e.yml": "a", "pkg/.husky/pre-push": "a", "pkg/.envrc": "a", "store/HEAD": "ref: x", "store/config": "a", "here/.vscode/tasks.json": "a",
	})
	do(t, os.Mkdir(root+"/store/objects", 0o755), os.Mkdir(root+"/sub", 0o755))
	w := begun(t, root)
	w.Places = placesIn(t, root)
	tree(t, root, map[string]string{"pkg/more": "x", "here/.vscode/notes.txt": "x", "top": "x"})
	do(t,
		os.Rename(root+"/node_modules/x/gh", root+"/.github"), os.Rename(root+"/node_modules/x/vs", root+"/sub/.vscode"),
		os.Rename(root+"/node_modules/x/cl", root+"/sub/cl"), os.Rename(root+"/old", root+"/newer"), os.Rename(root+"/store", root+"/sub/.git"))
	want := []string{
		"new .github/workflows/e.yml: CI", "new here/.vscode/notes.txt: editor tasks", "new newer/.github/workflows/e.yml: CI",
		"new sub/.git: nested repository", "new sub/.vscode/tasks.json: editor tasks", "new sub/cl/.envrc: direnv",
	}
	got := findings(root, w.Report([]string{root}, budget))
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Programs follow links to where their files lie.
func TestLinkedDirectories(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	tree(t, root, map[string]string{"payload/tasks.json": "a", "payload/workflows/z.yml": "a", "s/x": "a", "s/.claude/x": "a"})
	do(t, os.Symlink("../payload", root+"/s/.circleci"))
	w := begun(t, root)
	var want []string
	for name, what := range map[string]string{".vscode": "editor tasks", ".github": "CI", ".husky": "git hooks", ".claude/hooks": "agents", ".kiro": "agents"} {
		do(t, os.Symlink("../payload", root+"/s/"+name))
		want = append(want, "new s/"+name+": "+what)
	}
	do(t, os.Symlink("../payload", root+"/s/other"))
	got := findings(root, w.Report([]string{root}, budget))
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// No number of one kind hides another, and the top comes first.
func TestTheCommonestIsCut(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	w := begun(t, root)
	files := map[string]string{
		"zz/.github/workflows/evil.yml": "x", "zz/.envrc": "x", "zz.code-workspace": "x", "a/-rf/.claude/hooks/x": "x", ".gdbinit": "x",
	}
	for i := range 450 {
		files[fmt.Sprintf("a/%d/package.json", i)] = `{"scripts": {}}`
	}
	for i := range 30 {
		files[fmt.Sprintf("b/%d/.mcp.json", i)] = `x`
	}
	tree(t, root, files)
	r := w.Report([]string{root}, budget)
	got := findings(root, r)
	count := func(what string) (n int) {
		for _, f := range got {
			if strings.HasSuffix(f, what) {
				n++
			}
		}
		return n
	}
	if len(got) != 200 || !r.Partial || count("package scripts") != 165 || count("MCP clients") != 30 {
		t.Errorf("%d findings, %d of packages, %d of MCP, partial %v", len(got), count("package scripts"), count("MCP clients"), r.Partial)
	}
	for _, want := range []string{"new zz/.github/workflows/evil.yml: CI", "new zz/.envrc: direnv"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is hidden", want)
		}
	}
	if diff := cmp.Diff([]string{"new .gdbinit: interpreter start-up", "new zz.code-workspace: editor tasks"}, got[:2]); diff != "" {
		t.Error(diff)
	}
	telling := findings(root, persist.Report{Findings: r.Telling(3)})
	if diff := cmp.Diff([]string{"new zz/.envrc: direnv", "new a/-rf/.claude/hooks/x: agents", "new b/0/.mcp.json: MCP clients"}, telling); diff != "" {
		t.Error(diff)
	}
	if got := findings(root, persist.Report{Findings: r.Telling(8)}); len(got) != 8 || !strings.HasSuffix(got[7], "MCP clients") {
		t.Errorf("eight are %q", got)
	}
}

// Git directories in git directories, and what git goes on to do.
func TestInGitDirectories(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	git(t, root, "init", "-q")
	git(t, root, "commit", "-q", "--allow-empty", "-m", "a")
	git(t, root, "init", "-q", "--bare", ".git/modules/libs/old")
	git(t, root, "init", "-q", "--bare", "aside")
	git(t, root, "init", "-q", "--bare", "mirror.git")
	w := begun(t, root)
	w.Places = placesIn(t, root)
	if r := w.Report([]string{root}, budget); len(r.Findings) > 0 || r.Partial {
		t.Fatalf("before anything was done: %+v", r)
	}
	git(t, root, "init", "-q", "--bare", ".git/modules/libs/new")
	git(t, root, "init", "-q", "--bare", "other.git")
	git(t, root, "worktree", "add", "-q", root+"/tree")
	do(t, os.Rename(root+"/aside", root+"/.git/modules/aside"), os.Symlink("../../x", root+"/.git/modules/link"))
	tree(t, root, map[string]string{
		".git/rebase-merge/git-rebase-todo": "pick abc\n\texec /evil\n", ".git/rebase-merge/strategy": "a/evil\n", ".git/sequencer/todo": "pick abc\n",
		".git/sequencer/opts": "[options]\n\tstrategy = a/evil\n", ".git/modules/libs/old/sequencer/opts": "[options]\n\tstrategy = ort\n\tstrategy-option = theirs\n",
		".git/modules/libs/old/hooks/pre-push": "x", ".git/modules/libs/old/info/attributes": "x", ".git/remotes/origin": "URL: x", "mirror.git/hooks/update": "x",
	})
	want := []string{
		"new .git/modules/aside: git directory", "new .git/modules/libs/new: git directory", "new .git/modules/link: git directory",
		"new .git/modules/libs/old/hooks/pre-push: git hooks", "new .git/modules/libs/old/info/attributes: git configuration",
		"new .git/rebase-merge/git-rebase-todo: git rebase", "new .git/rebase-merge/strategy: git rebase", "new .git/sequencer/opts: git rebase", "new .git/remotes/origin: git configuration",
		"new .git/worktrees/tree: git directory", "new tree/.git: nested repository", "new other.git: nested repository", "new mirror.git/hooks/update: git hooks",
	}
	r := w.Report([]string{root, root + "/.git/modules/libs/old"}, budget)
	got := findings(root, r)
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" || r.Partial {
		t.Errorf("partial %v: %s", r.Partial, diff)
	}
}

// What the guard keeps read-only is reported where it isn't kept so: in any
// directory, with all that is in a directory.
func TestGuardedNamesAreReported(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	g := policy.GuardedWorkspaceNames()
	list := slices.Concat(g.Top, g.Home)
	for _, a := range g.Agents {
		for _, n := range a.Names {
			list = append(list, path.Join(a.Dir, n))
		}
	}
	w := begun(t, root)
	for i, n := range list {
		tree(t, root, map[string]string{fmt.Sprintf("file/%d/%s", i, n): "x", fmt.Sprintf("dir/%d/%s/x", i, n): "x"})
	}
	found := map[string]string{}
	for _, chunk := range []string{"file", "dir"} {
		for i := range list {
			dir := fmt.Sprintf("%s/%s/%d", root, chunk, i)
			for _, f := range w.Report([]string{dir}, budget).Findings {
				found[strings.TrimPrefix(f.Path, root+"/")] = f.What
			}
		}
	}
	for i, n := range list {
		for _, want := range []string{fmt.Sprintf("file/%d/%s", i, n), fmt.Sprintf("dir/%d/%s/x", i, n)} {
			if found[want] == "" || found[want] == "host programs" {
				t.Errorf("%q: run by %q", want, found[want])
			}
		}
	}
}

// Names that aren't guarded, since projects are about them or their programs
// ask first.
func TestFurtherNames(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	w := begun(t, root)
	list := []string{
		".claude/skills/x/SKILL.md", ".opencode/plugin/x.js", ".opencode/plugins/x.js", ".pnpmfile.cjs", ".pnp.cjs", ".dir-locals-2.el", "nix/flake.nix", "nix/shell.nix", "nix/.envrc.local", "bunfig.toml", ".yarn/plugins/x.cjs",
		".yarn/releases/yarn.cjs", ".exrc", ".nvim.lua", ".vimrc", "x.code-workspace", ".zed/tasks.json", ".zed/settings.json", ".kiro/settings/mcp.json",
		".kiro/hooks/x", ".roo/mcp.json", ".windsurf/hooks.json", ".amazonq/mcp.json", ".mise/config.toml", "mise/config.toml", ".tool-versions",
		".pre-commit-config.yaml", "lefthook.yml", ".lefthook/pre-push/x", ".ssh/rc", ".tmux.conf", ".dir-locals.el", ".helix/languages.toml", ".gdbinit",
		".local/bin/ls", "rust-toolchain.toml", ".config/pip/pip.conf", ".devcontainer/x/devcontainer.json", ".circleci/config.yml",
	}
	for _, n := range list {
		tree(t, root, map[string]string{"sub/" + n: "x"})
	}
	var got []string
	for _, f := range w.Report([]string{root}, budget).Findings {
		got = append(got, strings.TrimPrefix(f.Path, root+"/sub/"))
	}
	slices.Sort(got)
	slices.Sort(list)
	if diff := cmp.Diff(list, got); diff != "" {
		t.Error(diff)
	}
}

// What is granted may itself have such a name, lie in a directory of one, or
// be a file.
func TestGrantsOfSuchNames(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	tree(t, root, map[string]string{"package.json": "{}", ".github/workflows/a/b": "x", ".local/bin/x": "x", "plain": "x"})
	w := begun(t, root)
	roots := []string{root + "/package.json", root + "/plain", root + "/.github/workflows/a", root + "/.local/bin"}
	if r := w.Report(roots, budget); len(r.Findings) > 0 || r.Partial {
		t.Fatalf("before anything was done: %+v", r)
	}
	deep := ".local/bin" + strings.Repeat("/d", 40) + "/x"
	tree(t, root, map[string]string{"package.json": `{"scripts":{}}`, ".github/workflows/a/c.yml": "x", "plain": "y", deep: "x"})
	r := w.Report(roots, budget)
	want := []string{"changed package.json: package scripts", "new .github/workflows/a/c.yml: CI", "new " + deep + ": commands on the PATH"}
	got := findings(root, r)
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" || r.Partial {
		t.Errorf("partial %v: %s", r.Partial, diff)
	}
}
