package hostgit_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pinfold/hostgit"
)

// TestPipes: a repository that has git wait for ever is refused at once, and
// what only looks like one isn't.
func TestPipes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ pipe, at string }{
		{".git/config", ""},
		{".git/HEAD", "sub"},
		{".git/info/exclude", ""},
		{"nested/.git/index", ""},
		{"nested/.git/HEAD", ""},
	} {
		t.Run(strings.ReplaceAll(c.pipe, "/", " "), func(t *testing.T) {
			t.Parallel()
			f := newFarm(t)
			f.repository("nested")
			f.write("sub/config/x", "x")
			must(t, os.Mkdir(f.top+"/sub/objects", 0o755))
			must(t, f.guarded("sub", "status"))
			path := filepath.Join(f.top, c.pipe)
			must(t, os.RemoveAll(path))
			must(t, syscall.Mkfifo(path, 0o600))
			begin := time.Now()
			err := f.guarded(c.at, "status")
			if err == nil || codeOf(t, err) != "git_repository" || time.Since(begin) > time.Minute {
				t.Errorf("after %v: %v", time.Since(begin), err)
			}
		})
	}
}

// TestPlaces: where there is no repository yet, nobody may make one.
func TestPlaces(t *testing.T) {
	t.Parallel()
	f := newFarm(t)
	dir := filepath.Dir(f.top)
	real, err := filepath.EvalSymlinks(dir)
	must(t, err)
	must(t, os.MkdirAll(dir+"/empty/below", 0o755))
	must(t, os.Symlink("empty", dir+"/link"))
	for _, c := range []struct {
		at, args, want string
	}{
		{dir + "/link", "status", "/empty"},
		{dir, "-C empty status", "/empty"},
		{dir, "clone https://example.test/x link/new", "/empty/new"},
		{dir + "/empty", "init --separate-git-dir=below/git here", "/empty/below/git"},
		{f.top, "worktree add ../empty/tree", "/empty/tree"},
	} {
		g, err := hostgit.Prepare(t.Context(), c.at, strings.Fields(c.args), f.env)
		must(t, err)
		if !slices.Contains(g.Places, real+c.want) {
			t.Errorf("%s: %s isn't among the places %q", c.args, c.want, g.Places)
		}
	}
}

// TestPathOfOthers: what another user may change isn't on git's PATH.
func TestPathOfOthers(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can make a directory another user's")
	}
	f := newFarm(t)
	mine, theirs := filepath.Dir(f.top)+"/mine", filepath.Dir(f.top)+"/theirs"
	for _, dir := range []string{mine, theirs} {
		must(t, os.Mkdir(dir, 0o755))
	}
	must(t, os.Chown(theirs, 4242, 4242))
	g, err := hostgit.Prepare(t.Context(), f.top, []string{"status"}, append([]string{"PATH=" + mine + ":" + theirs + ":" + os.Getenv("PATH")}, f.env...))
	must(t, err)
	for _, e := range g.Env {
		if path, ok := strings.CutPrefix(e, "PATH="); ok && (!strings.HasPrefix(path, mine+":") || strings.Contains(path, theirs)) {
			t.Errorf("the PATH is %q", path)
		}
	}
}
