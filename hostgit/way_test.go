package hostgit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pinfold/hostgit"
)

func (f *farm) symlink(target, name string) {
	f.t.Helper()
	must(f.t, os.MkdirAll(filepath.Dir(filepath.Join(f.top, name)), 0o755))
	must(f.t, os.Symlink(target, filepath.Join(f.top, name)))
}

// filter is configuration that names the trap, or only might.
func (f *farm) filter() string {
	return "[filter \"ev\"]\n\tclean = " + f.sprungTrap() + "\n"
}

// stashedInclude has a stash turn a link, which an include passes, into a file.
func stashedInclude(f *farm) {
	f.symlink("/nowhere/at/all", "link")
	f.write(".gitattributes", "file.txt filter=ev\n")
	f.commit("", "a link")
	must(f.t, os.Remove(f.top+"/link"))
	f.write("link", f.filter())
	f.write("file.txt", "three\n")
	f.git("", "add", "-A")
	f.git("", "stash", "-q")
	f.git("", "config", "include.path", "../link")
}

// behind has another branch turn a link to a git directory outside into a git
// directory, and a nested repository that leads there.
func behind(lead func(f *farm)) func(f *farm) {
	return func(f *farm) {
		f.git("", "branch", "-m", "main")
		f.repository("../good")
		head := strings.TrimSpace(f.git("../good", "rev-parse", "HEAD"))
		must(f.t, os.Rename(f.top+"/../good/.git", f.top+"/../good/r"))
		f.symlink("../good", "link")
		f.git("", "update-index", "--add", "--cacheinfo", "160000,"+head+",sub")
		f.git("", "add", "link")
		f.git("", "commit", "-qm", "a link")
		f.git("", "checkout", "-q", "-b", "other")
		must(f.t, os.Remove(f.top+"/link"))
		must(f.t, os.CopyFS(f.top+"/link/r", os.DirFS(f.top+"/../good/r")))
		must(f.t, os.RemoveAll(f.top+"/link/r/hooks"))
		f.write("link/r/refs/keep", "")
		f.write("link/r/info/attributes", "file.txt filter=ev\n")
		f.write("link/r/config", "[core]\n\tbare = false\n"+f.filter())
		f.git("", "add", "-f", "link")
		f.git("", "commit", "-qm", "a directory")
		f.git("", "checkout", "-q", "main")
		f.write("sub/file.txt", "six\n")
		lead(f)
	}
}

// linkedConfig has a nested repository's configuration be a file of the work
// tree, which another branch has otherwise.
func linkedConfig(f *farm) {
	f.git("", "branch", "-m", "main")
	f.repository("sub")
	f.gitlink("sub")
	plain, err := os.ReadFile(f.top + "/sub/.git/config")
	must(f.t, err)
	f.write("cfg", string(plain))
	f.git("", "add", "cfg")
	f.git("", "commit", "-qm", "a configuration")
	f.git("", "checkout", "-q", "-b", "other")
	f.write("cfg", string(plain)+f.filter())
	f.git("", "commit", "-qam", "another one")
	f.git("", "checkout", "-q", "main")
	must(f.t, os.Remove(f.top+"/sub/.git/config"))
	f.symlink("../../cfg", "sub/.git/config")
	f.write("sub/.git/info/attributes", "file.txt filter=ev\n")
	f.write("sub/file.txt", "six\n")
}

// elsewhere has the work tree of a submodule lie outside, with a repository in
// it.
func elsewhere(f *farm) {
	f.submodule("lib")
	f.git("lib", "config", "core.worktree", filepath.Dir(f.top)+"/there")
	f.write("../there/.git", "gitdir: "+f.top+"/.git/modules/lib\n")
	f.write("../there/file.txt", "two\n")
	f.repository("../there/in")
	f.git("../there", "add", "in")
	f.git("../there/in", "config", "filter.ev.clean", f.sprungTrap())
	f.write("../there/in/.git/info/attributes", "file.txt filter=ev\n")
	f.write("../there/in/file.txt", "six\n")
}

// beside has a submodule's git directory name a place in the main work tree,
// which isn't the one that git works in.
func beside(f *farm) {
	f.submodule("lib")
	f.git("", "worktree", "add", "-q", "--detach", "../other")
	f.write("../other/lib/.git", "gitdir: "+f.top+"/.git/modules/lib\n")
	f.git("../other/lib", "config", "core.worktree", "../../../somewhere")
	f.write("somewhere/file.txt", "two\n")
	f.repository("somewhere/in")
	f.git("somewhere", "--git-dir=../.git/modules/lib", "--work-tree=.", "add", "in")
	f.git("somewhere/in", "config", "filter.ev.clean", f.sprungTrap())
	f.write("somewhere/in/.git/info/attributes", "file.txt filter=ev\n")
	f.write("somewhere/in/file.txt", "six\n")
}

func strays() map[string]attack {
	other := [][]string{{"checkout", "other"}}
	return map[string]attack{
		"an include behind a link": {stashedInclude, [][]string{{"stash", "pop"}}, "git_config"},
		"a git directory behind a link": {behind(func(f *farm) {
			f.write("sub/.git", "gitdir: ../link/r\n")
		}), other, "git_repository"},
		"a link to a git directory behind a link": {behind(func(f *farm) {
			f.symlink("../link/r", "sub/.git")
		}), other, "git_repository"},
		"a link to a git directory to come": {behind(func(f *farm) {
			f.symlink("../link/r", "sub/.git")
			must(f.t, os.RemoveAll(f.top+"/../good"))
		}), other, "git_repository"},
		"a common directory behind a link": {behind(func(f *farm) {
			f.write("sub/.git/commondir", "../../link/r\n")
			for _, name := range []string{"HEAD", "index"} {
				b, err := os.ReadFile(f.top + "/../good/r/" + name)
				must(f.t, err)
				f.write("sub/.git/"+name, string(b))
			}
		}), other, "git_repository"},
		"the operator's own, in the tree": {func(f *farm) {
			must(f.t, os.WriteFile(filepath.Dir(f.top)+"/.gitconfig", []byte("[includeIf \"gitdir:"+f.top+"/\"]\n\tpath = ws/team.cfg\n"), 0o600))
			f.write("team.cfg", f.filter())
			f.write(".gitattributes", "file.txt filter=ev\n")
		}, [][]string{{"add", "--renormalize", "."}}, "git_config"},
		"a configuration that is a link":  {linkedConfig, other, "git_repository"},
		"the work tree of another's, far": {elsewhere, [][]string{{"status"}}, ""},
		"a place in the main work tree":   {beside, [][]string{{"-C", "../other", "status"}}, ""},
	}
}

// TestWays: what people have passes, wherever it leads.
func TestWays(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	f.submodule("deps/lib")
	f.repository("old/style")
	f.git("old/style", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../../../beside", "in/lib")
	f.gitlink("old/style")
	f.git("", "worktree", "add", "-q", "--detach", ".worktrees/one")
	f.repository("../far")
	must(t, os.MkdirAll(f.top+"/linked", 0o755))
	f.symlink("../../far/.git", "linked/.git")
	f.write("../shared.cfg", "[user]\n\tname = me\n")
	f.symlink("shared.cfg", "../link.cfg")
	f.git("", "config", "include.path", "../../link.cfg")
	for _, at := range []string{"", "deps/lib", "old/style", "old/style/in/lib", ".worktrees/one", "linked"} {
		must(t, f.guarded(at, "status"))
	}
	f.git("", "submodule", "--quiet", "deinit", "-f", "deps/lib")
	f.git("", "-C", ".git/modules/deps/lib", "config", "core.worktree", "../../../../deps/lib")
	c, err := hostgit.Prepare(t.Context(), f.top, []string{"status"}, f.env)
	must(t, err)
	must(t, f.guarded(".worktrees/one", "status"))
	want := map[string]bool{"/link.cfg": true, "/shared.cfg": true, "/ws": true, "/far/.git": true}
	for _, place := range c.Places {
		delete(want, strings.TrimPrefix(place, filepath.Dir(f.top)))
		if place == "/" || beneathOf(f.top, place) {
			t.Errorf("%q is among the places", place)
		}
	}
	if len(want) > 0 {
		t.Errorf("%v aren't among the places %q", want, c.Places)
	}
}

// beneathOf reports whether a place holds a directory, and isn't it.
func beneathOf(dir, place string) bool {
	return strings.HasPrefix(dir, place+"/")
}
