package hostgit_test

import (
	"context"
	"errors"
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

// farm is a repository full of traps: each that springs adds its name to a
// file.
type farm struct {
	t     *testing.T
	top   string
	log   string
	env   []string
	traps int
}

func newFarm(t *testing.T) *farm {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	dir := t.TempDir()
	f := &farm{t: t, top: dir + "/ws", log: dir + "/sprung", env: []string{
		"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "LANG=C",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.test", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.test",
	}}
	f.repository("")
	return f
}

// repository makes a repository with two commits at a place in the farm.
func (f *farm) repository(at string) {
	f.t.Helper()
	f.write(at+"/file.txt", "one\n")
	f.git(at, "init", "-q")
	f.git(at, "add", "-A")
	f.git(at, "commit", "-qm", "first")
	f.write(at+"/file.txt", "two\n")
	f.git(at, "commit", "-qam", "second")
}

func (f *farm) write(name, text string) {
	f.t.Helper()
	p := filepath.Join(f.top, name)
	must(f.t, os.MkdirAll(filepath.Dir(p), 0o755))
	must(f.t, os.WriteFile(p, []byte(text), 0o600))
}

// git is the host's own, unguarded.
func (f *farm) git(at string, args ...string) string {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env = filepath.Join(f.top, at), f.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		f.t.Logf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// trap is a program that says that it was run, and then copies its input.
func (f *farm) trap(name string) string {
	f.t.Helper()
	p := filepath.Join(filepath.Dir(f.log), "trap-"+name)
	must(f.t, os.WriteFile(p, []byte("#!/bin/sh\necho "+name+" >>"+f.log+"\ncase $1 in /*) cat \"$1\";; *) cat;; esac 2>/dev/null\n"), 0o700))
	f.traps++
	return p
}

// plant sets the traps that status, diff and log walk into.
func (f *farm) plant() {
	f.repository("nested")
	f.git("", "add", "nested")
	f.git("", "commit", "-qm", "a gitlink")
	f.git("", "config", "core.fsmonitor", f.trap("fsmonitor"))
	f.git("", "config", "core.hooksPath", "hooks")
	f.write("hooks/post-index-change", "#!/bin/sh\necho hook >>"+f.log+"\n")
	must(f.t, os.Chmod(f.top+"/hooks/post-index-change", 0o700))
	f.write("../included", "[filter \"a.b\"]\n\tclean = "+f.trap("filter")+"\n")
	f.git("", "config", "include.path", "../../included")
	f.git("", "config", "extensions.worktreeConfig", "true")
	f.git("", "config", "--worktree", "diff.tc.textconv", f.trap("textconv"))
	f.git("", "config", "diff.cmd.command", f.trap("command"))
	f.git("", "config", "diff.external", f.trap("external"))
	f.git("nested", "config", "core.fsmonitor", f.trap("nested-fsmonitor"))
	f.git("nested", "config", "filter.n.process", f.trap("nested-process"))
	f.git("nested", "config", "filter.n.clean", f.trap("nested-filter"))
	f.write("nested/.gitattributes", "*.txt filter=n\n")
	f.write("nested/file.txt", "six\n")
	f.write(".git/info/attributes", "file.txt filter=a.b diff=tc\nother.txt diff=cmd\n")
	f.write("other.txt", "x\n")
	f.git("", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "add", "-N", "other.txt")
	f.write("file.txt", "six\n")
	f.git("", "config", "alias.st", "!"+f.trap("alias"))
	must(f.t, os.RemoveAll(f.log))
}

// sprung lists the traps that were walked into.
func (f *farm) sprung() []string {
	b, err := os.ReadFile(f.log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		f.t.Fatal(err)
	}
	names := strings.Fields(string(b))
	slices.Sort(names)
	return slices.Compact(names)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// walks are the commands that people run on what came back.
func walks() [][]string {
	return [][]string{
		{"status"},
		{"status", "--porcelain"},
		{"diff"},
		{"diff", "HEAD"},
		{"-C", ".", "log", "-p", "--textconv"},
		{"show"},
		{"stash", "list"},
		{"branch", "-a"},
	}
}

// TestNothingIsExecuted: status, diff and log run none of what the tree names;
// plain git runs all of it.
func TestNothingIsExecuted(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	f.plant()
	for _, args := range walks() {
		c, err := hostgit.Prepare(t.Context(), f.top, args, f.env)
		must(t, err)
		cmd := exec.Command(c.Path, c.Argv[1:]...)
		cmd.Dir, cmd.Env = f.top, c.Env
		out, err := cmd.CombinedOutput()
		if err != nil || args[0] != "stash" && len(out) == 0 {
			t.Errorf("git %v: %v\n%s", args, err, out)
		}
	}
	if got := f.sprung(); len(got) > 0 {
		t.Errorf("executed: %v", got)
	}

	for _, args := range walks() { // the control
		f.git("", args...)
		f.git("", slices.Concat([]string{"-c", "diff.external="}, args)...)
		f.git("", slices.Concat([]string{"-c", "core.fsmonitor=false"}, args)...)
	}
	f.git("", "st")
	want := []string{"alias", "command", "external", "filter", "fsmonitor", "hook", "nested-fsmonitor", "nested-process", "textconv"}
	for _, name := range want {
		if !slices.Contains(f.sprung(), name) {
			t.Errorf("plain git doesn't run %s, so the test shows nothing of it: %v", name, f.sprung())
		}
	}
}

// TestRefused: what nothing can stand in for.
func TestRefused(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	f.git("", "config", "alias.st", "!"+f.trap("alias"))
	for name, c := range map[string]struct {
		set, args []string
		code      string
	}{
		"alias":    {args: []string{"st"}, code: "git_alias"},
		"vcs":      {set: []string{"remote.x.vcs", "ext"}, args: []string{"status"}, code: "git_config"},
		"worktree": {set: []string{"core.worktree", "/"}, args: []string{"status"}, code: "git_config"},
	} {
		if c.set != nil {
			f.git("", slices.Concat([]string{"config"}, c.set)...)
		}
		_, err := hostgit.Prepare(t.Context(), f.top, c.args, f.env)
		if r, ok := errors.AsType[*policy.Refusal](err); !ok || r.Code != c.code || r.Fix == "" {
			t.Errorf("%s: %v", name, err)
		}
		if c.set != nil {
			f.git("", "config", "--unset", c.set[0])
		}
	}
	if got := f.sprung(); len(got) > 0 {
		t.Errorf("executed: %v", got)
	}
}

// TestOperatorsOwn: what the operator configured for himself goes on to hold,
// where the repository says something else.
func TestOperatorsOwn(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	f.plant()
	mine := f.trap("mine")
	must(t, os.WriteFile(filepath.Dir(f.log)+"/.gitconfig", []byte("[diff \"tc\"]\n\ttextconv = "+mine+"\n[core]\n\tpager = mypager\n"), 0o600))
	f.git("", "config", "core.pager", f.trap("pager"))
	c, err := hostgit.Prepare(t.Context(), f.top, []string{"config", "core.pager"}, f.env)
	must(t, err)
	cmd := exec.Command(c.Path, c.Argv[1:]...)
	cmd.Dir, cmd.Env = f.top, c.Env
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "mypager\n" {
		t.Errorf("core.pager is %q: %v", out, err)
	}
}
