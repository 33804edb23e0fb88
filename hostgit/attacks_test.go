package hostgit_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pinfold/hostgit"
	"pinfold/policy"
)

// attack is something that plain git executes.
type attack struct {
	// plant prepares a farm. What it plants says "sprung".
	plant func(f *farm)
	// steps are run one after the other.
	steps [][]string
	// code is that of the refusal, "" where git runs and executes nothing.
	code string
}

// sprung is the trap of every attack.
func (f *farm) sprungTrap() string { return f.trap("sprung") }

// commit records what stands in a place of the farm.
func (f *farm) commit(at, message string) {
	f.t.Helper()
	f.git(at, "add", "-A")
	f.git(at, "commit", "-qm", message)
}

// gitlink records in the index that a commit of a nested repository is there.
func (f *farm) gitlink(name string) {
	f.t.Helper()
	f.git("", "update-index", "--add", "--cacheinfo", "160000,"+strings.TrimSpace(f.git(name, "rev-parse", "HEAD"))+","+name)
	f.git("", "commit", "-qm", "the gitlink "+name)
}

// submodule adds one as git does, from a repository beside.
func (f *farm) submodule(name string) {
	f.t.Helper()
	f.repository("../beside")
	f.git("", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../beside", name)
	f.git("", "commit", "-qm", "a submodule")
}

func (f *farm) hook(repository, name string) {
	f.t.Helper()
	f.write(repository+"/"+name, "#!/bin/sh\n"+f.sprungTrap()+" </dev/null\n")
	must(f.t, os.Chmod(filepath.Join(f.top, repository, name), 0o700))
}

// nestedBranch has a nested repository with a filter, and a gitlink to it in
// the branch "other" alone.
func nestedBranch(f *farm) {
	f.git("", "branch", "-m", "main")
	f.git("", "checkout", "-q", "-b", "other")
	f.repository("sub")
	f.gitlink("sub")
	f.git("", "checkout", "-q", "main")
	f.write("sub/.gitattributes", "* filter=ev\n")
	f.git("sub", "config", "filter.ev.clean", f.sprungTrap())
	f.write("sub/file.txt", "six\n")
}

// threeLinks has a gitlink in commits alone, a driver in what it leads to, and
// differences that show what is in it.
func threeLinks(f *farm) {
	f.repository("sub")
	f.gitlink("sub")
	f.write("sub/file.txt", "three\n")
	f.git("sub", "commit", "-qam", "third")
	f.gitlink("sub")
	f.write("sub/.git/info/attributes", "* diff=ev\n")
	f.git("sub", "config", "diff.ev.textconv", f.sprungTrap())
	f.git("", "config", "diff.submodule", "diff")
}

func attacks() map[string]attack {
	return map[string]attack{
		"core.gitProxy": {func(f *farm) {
			f.git("", "remote", "add", "origin", "git://127.0.0.1/x")
			f.git("", "config", "core.gitProxy", f.sprungTrap())
		}, [][]string{{"fetch"}}, "git_config"},
		"a condition that comes true": {func(f *farm) {
			f.write(".gitattributes", "* filter=ev\n")
			f.commit("", "attributes")
			f.git("", "branch", "other")
			f.write("../evil.cfg", "[filter \"ev\"]\n\tsmudge = "+f.sprungTrap()+"\n")
			f.git("", "config", "includeIf.onbranch:other.path", "../../evil.cfg")
		}, [][]string{{"worktree", "add", "../other", "other"}}, ""},
		"a condition in the git directory": {func(f *farm) {
			f.write(".gitattributes", "* filter=ev\n")
			f.commit("", "attributes")
			f.git("", "branch", "other")
			f.write(".git/evil.cfg", "[filter \"ev\"]\n\tsmudge = "+f.sprungTrap()+"\n")
			f.git("", "config", "includeIf.onbranch:other.path", "evil.cfg")
		}, [][]string{{"worktree", "add", "../other", "other"}}, "git_config"},
		"an include that a commit brings": {func(f *farm) {
			f.git("", "branch", "-m", "main")
			f.git("", "config", "include.path", "../cfg")
			f.git("", "checkout", "-q", "-b", "other")
			f.write("cfg", "[filter \"ev\"]\n\tclean = "+f.sprungTrap()+"\n")
			f.write(".gitattributes", "file.txt filter=ev\n")
			f.commit("", "a configuration")
			f.git("", "checkout", "-q", "main")
		}, [][]string{{"checkout", "-q", "other"}, {"add", "--renormalize", "."}}, "git_config"},
		"a hook of a local remote": {func(f *farm) {
			f.git("", "init", "-q", "--bare", "../remote.git")
			f.hook("../remote.git/hooks", "update")
			f.git("", "remote", "add", "origin", "../remote.git")
		}, [][]string{{"push", "origin", "HEAD:refs/heads/new"}}, ""},
		"a hook of a local remote by its address": {func(f *farm) {
			f.git("", "init", "-q", "--bare", "../remote.git")
			f.hook("../remote.git/hooks", "update")
			f.git("", "config", "protocol.file.allow", "always")
			f.git("", "config", "url."+filepath.Dir(f.top)+"/.insteadOf", "https://example.test/")
			f.git("", "remote", "add", "origin", "https://example.test/remote.git")
		}, [][]string{{"push", "origin", "HEAD:refs/heads/new"}}, ""},
		"ext": {func(f *farm) {
			f.git("", "config", "protocol.ext.allow", "always")
			f.hook("../helper", "run")
			f.git("", "remote", "add", "origin", "ext::"+filepath.Dir(f.top)+"/helper/run")
		}, [][]string{{"fetch"}}, ""},
		"exec in a todo": {func(f *farm) {
			f.git("", "-c", "sequence.editor=sed -i 1ibreak", "rebase", "-q", "-i", "HEAD~1")
			f.write(".git/rebase-merge/git-rebase-todo", "exec "+f.sprungTrap()+" </dev/null\n")
		}, [][]string{{"rebase", "--continue"}}, "git_todo"},
		"x in a todo, after a tab": {func(f *farm) {
			f.git("", "-c", "sequence.editor=sed -i 1ibreak", "rebase", "-q", "-i", "HEAD~1")
			f.write(".git/rebase-merge/git-rebase-todo", "# nothing\n  x\t"+f.sprungTrap()+" </dev/null\n")
		}, [][]string{{"rebase", "--skip"}}, "git_todo"},
		"exec in a format of instructions": {func(f *farm) {
			f.git("", "config", "rebase.instructionFormat", "%s%nexec "+f.sprungTrap()+" </dev/null")
		}, [][]string{{"-c", "sequence.editor=true", "rebase", "-f", "-i", "HEAD~1"}}, ""},
		"a gitlink that only commits have": {func(f *farm) {
			threeLinks(f)
			f.git("", "rm", "-q", "--cached", "sub")
			f.git("", "commit", "-qm", "no gitlink")
		}, [][]string{{"--no-pager", "log", "-p"}}, ""},
		"a gitlink that the next branch has": {nestedBranch, [][]string{{"checkout", "other"}}, ""},
		"a nested repository that says it is bare": {func(f *farm) {
			threeLinks(f)
			f.git("sub", "config", "core.bare", "true")
		}, [][]string{{"--no-pager", "diff", "HEAD~1", "HEAD"}}, ""},
		"a git directory that a commit brings": {func(f *farm) {
			nestedBranch(f)
			f.git("", "checkout", "-q", "-f", "other")
			must(f.t, os.Rename(f.top+"/sub/.git", f.top+"/stolen"))
			must(f.t, os.RemoveAll(f.top+"/stolen/hooks"))
			f.write("stolen/refs/keep", "")
			f.git("", "update-index", "--add", "--cacheinfo", "160000,"+strings.TrimSpace(f.git("stolen", "rev-parse", "HEAD"))+",sub")
			f.git("", "add", "stolen")
			f.git("", "commit", "-qm", "a git directory")
			f.git("", "checkout", "-q", "main")
			f.write("sub/.git", "gitdir: ../stolen\n")
			f.write("sub/.gitattributes", "* filter=ev\n")
			f.write("sub/file.txt", "six\n")
		}, [][]string{{"checkout", "other"}}, "git_repository"},
		"a planted directory of modules": {func(f *farm) {
			f.submodule("lib")
			f.git("", "submodule", "--quiet", "deinit", "-f", "lib")
			f.write(".git/modules/lib/info/attributes", "* filter=ev\n")
			f.git(".git/modules/lib", "config", "filter.ev.smudge", f.sprungTrap())
			f.git(".git/modules/lib", "update-index", "--force-remove", "file.txt")
		}, [][]string{{"submodule", "update", "--init", "--force"}}, ""},
		"an external diff of a driver's": {func(f *farm) {
			f.write(".gitattributes", "* diff=ev\n")
			f.git("", "config", "diff.ev.command", f.sprungTrap())
			f.write("file.txt", "changed\n")
		}, [][]string{{"--no-pager", "log", "--ext-diff", "-p"}, {"--no-pager", "diff", "--ext-diff"}}, ""},
		"a tool that is a path": {func(f *farm) {
			f.git("", "config", "merge.tool", strings.Repeat("../", 20)+strings.TrimPrefix(f.sprungTrap(), "/"))
			f.git("", "checkout", "-q", "-b", "other", "HEAD~1")
			f.write("file.txt", "three\n")
			f.git("", "commit", "-qam", "third")
			f.git("", "merge", "-q", "-")
		}, [][]string{{"mergetool", "--no-prompt"}}, "git_config"},
		"a command that lists what alternates have": {func(f *farm) {
			f.repository("../beside")
			f.write(".git/objects/info/alternates", filepath.Dir(f.top)+"/beside/.git/objects\n")
			f.git("", "config", "core.alternateRefsCommand", f.sprungTrap())
			f.git("", "remote", "add", "origin", "../beside")
		}, [][]string{{"-c", "protocol.file.allow=always", "fetch", "origin"}}, ""},
		"an extension of a filter program's": {func(f *farm) {
			f.git("", "config", "lfs.extension.ev.clean", f.sprungTrap())
			must(f.t, os.WriteFile(filepath.Dir(f.top)+"/.gitconfig", []byte("[filter \"own\"]\n\tclean = $(git config lfs.extension.ev.clean)\n"), 0o600))
			f.write(".gitattributes", "* filter=own\n")
		}, [][]string{{"add", "--renormalize", "."}}, "git_config"},
		"a work tree beside": {func(f *farm) {
			f.write(".git/info/attributes", "* filter=ev\n")
			f.git("", "worktree", "add", "-q", "--detach", "../other")
			f.git("", "config", "extensions.worktreeConfig", "true")
			f.git("../other", "config", "--worktree", "filter.ev.clean", f.sprungTrap())
			f.write("../other/file.txt", "six\n")
		}, [][]string{{"worktree", "remove", "../other"}}, ""},
	}
}

// TestAttacks: what plain git executes isn't executed.
func TestAttacks(t *testing.T) {
	t.Parallel()
	all := attacks()
	maps.Copy(all, unfinished())
	maps.Copy(all, overridden())
	maps.Copy(all, strays())
	for name, a := range all {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFarm(t)
			a.plant(f)
			must(t, os.RemoveAll(f.log))
			code := ""
			for _, args := range a.steps {
				if err := f.guarded("", args...); err != nil {
					code = codeOf(t, err)
				}
			}
			if got := f.sprung(); len(got) > 0 {
				t.Errorf("executed: %v", got)
			}
			if code != a.code {
				t.Errorf("refused with %q, want %q", code, a.code)
			}

			control := newFarm(t)
			a.plant(control)
			must(t, os.RemoveAll(control.log))
			for _, args := range a.steps {
				control.git("", args...)
			}
			if len(control.sprung()) == 0 {
				t.Error("plain git executes nothing either, so this shows nothing")
			}
		})
	}
}

// guarded runs git as pinfold does, and answers why it wasn't run.
func (f *farm) guarded(at string, args ...string) error {
	f.t.Helper()
	dir := filepath.Join(f.top, at)
	c, err := hostgit.Prepare(f.t.Context(), dir, args, f.env)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Path, c.Argv[1:]...)
	cmd.Dir, cmd.Env = dir, c.Env
	if out, err := cmd.CombinedOutput(); err != nil {
		f.t.Logf("git %v: %v\n%s", args, err, out)
	}
	return nil
}

func codeOf(t *testing.T, err error) string {
	t.Helper()
	r, ok := errors.AsType[*policy.Refusal](err)
	if !ok || r.Fix == "" {
		t.Fatalf("no refusal with a way out: %v", err)
	}
	return r.Code
}

// TestOrdinary: what people have and do goes on to work.
func TestOrdinary(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	f.submodule("lib")
	f.git("", "worktree", "add", "-q", "--detach", "../other")
	for _, kv := range [][2]string{
		{"remote.origin.url", "https://example.test/x.git"},
		{"remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*"},
		{"branch.main.remote", "origin"},
		{"branch.main.merge", "refs/heads/main"},
		{"branch.main.description", "what it is for"},
		{"branch.main.vscode-merge-base", "origin/main"},
		{"branch.main.github-pr-owner-number", "a#b#1"},
		{"remote.origin.gh-resolved", "base"},
		{"user.signingKey", "x"},
		{"commit.template", ".gitmessage"},
		{"lfs.repositoryformatversion", "0"},
		{"lfs.https://example.test/x.git/info/lfs.access", "basic"},
		{"gitflow.path.hooks", "/x/.git/hooks"},
		{"pull.rebase", "true"},
		{"core.autocrlf", "input"},
		{"http.https://example.test/.extraheader", "AUTHORIZATION: basic x"},
		{"remote.origin.promisor", "true"},
		{"remote.origin.partialclonefilter", "blob:none"},
		{"submodule.lib.active", "true"},
		{"alias.st", "status"},
		{"merge.tool", "vimdiff"},
	} {
		f.git("", "config", kv[0], kv[1])
	}
	for _, args := range [][]string{
		{"status"},
		{"diff"},
		{"log", "-p"},
		{"show"},
		{"add", "-A"},
		{"commit", "--allow-empty", "-qm", "x"},
		{"stash", "list"},
		{"submodule", "status"},
		{"submodule", "update", "--init"},
		{"worktree", "list"},
		{"branch", "-a"},
		{"worktree", "remove", "../other"},
		{"submodule", "foreach", "git status"},
		{"-c", "sequence.editor=true", "rebase", "-i", "HEAD~1"},
		{"config", "--list"},
		{"clone", "--version"},
		{"--version"},
		nil,
	} {
		must(t, f.guarded("", args...))
	}
	for _, args := range [][]string{{"status"}, {"log"}, {"diff", "HEAD~1"}} {
		must(t, f.guarded("lib", args...))
	}
	c, err := hostgit.Prepare(t.Context(), f.top, []string{"status"}, f.env)
	must(t, err)
	for _, place := range []string{f.top, f.top + "/.git", f.top + "/lib", f.top + "/.git/modules/lib"} {
		if real, err := filepath.EvalSymlinks(place); err != nil || !slices.Contains(c.Places, real) {
			t.Errorf("%q isn't among the places %v: %v", place, c.Places, err)
		}
	}
}

// TestGoesOn: a rebase that only picks is continued.
func TestGoesOn(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	f.git("", "-c", "sequence.editor=sed -i 1ibreak", "rebase", "-q", "-i", "HEAD~1")
	if _, err := os.Stat(f.top + "/.git/rebase-merge"); err != nil {
		t.Fatal(err)
	}
	must(t, f.guarded("", "rebase", "--continue"))
	if _, err := os.Stat(f.top + "/.git/rebase-merge"); err == nil {
		t.Error("the rebase isn't finished")
	}
}

// TestTreesOwnPrograms: neither a git nor anything else that git would run is
// taken from the tree.
func TestTreesOwnPrograms(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	planted := f.top + "/node_modules/.bin"
	must(t, os.MkdirAll(planted, 0o755))
	must(t, os.Rename(f.sprungTrap(), planted+"/git"))
	f.write("sub/file.txt", "x\n")
	for name, path := range map[string]string{"absolute": planted, "relative": "node_modules/.bin", "from below": planted} {
		env := append([]string{"PATH=" + path + ":" + os.Getenv("PATH")}, f.env...)
		dir := f.top
		if name == "from below" {
			dir += "/sub"
		}
		c, err := hostgit.Prepare(t.Context(), dir, []string{"status"}, env)
		must(t, err)
		for _, e := range c.Env {
			if v, ok := strings.CutPrefix(e, "PATH="); ok && strings.Contains(v, "node_modules") || strings.HasPrefix(c.Path, f.top) {
				t.Errorf("%s: %q with %s", name, c.Path, e)
			}
		}
	}
	_, err := hostgit.Prepare(t.Context(), f.top, []string{"status"}, append([]string{"PATH=" + planted}, f.env...))
	if code := codeOf(t, err); code != "git_untrusted" {
		t.Errorf("refused with %s: %v", code, err)
	}
	_, err = hostgit.Prepare(t.Context(), f.top, []string{"status"}, append(slices.Clone(f.env), "GIT_EXEC_PATH="+planted))
	if code := codeOf(t, err); code != "git_untrusted" {
		t.Errorf("its parts: refused with %s: %v", code, err)
	}
	if got := f.sprung(); len(got) > 0 {
		t.Errorf("executed: %v", got)
	}
	cmd := exec.Command(planted+"/git", "status") // the control
	must(t, cmd.Run())
	if len(f.sprung()) == 0 {
		t.Error("the planted git says nothing")
	}
}
