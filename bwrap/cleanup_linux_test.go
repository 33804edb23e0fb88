package bwrap_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold/bwrap"
	"pinfold/guard"
	"pinfold/plan"
)

// ghostly is a launch that denies a path that isn't there in a write grant.
func ghostly(t *testing.T, ghost, script string) *bwrap.Launch {
	t.Helper()
	in := command(script)
	in.Entries = []guard.Entry{entry(t, filepath.Dir(ghost), guard.ReadWrite), entry(t, ghost, guard.Deny)}
	return realLaunch(t, in)
}

func exists(t *testing.T, path string) bool {
	t.Helper()
	_, err := os.Lstat(path)
	if !errors.Is(err, os.ErrNotExist) {
		must(t, err)
		return true
	}
	return false
}

// begin starts a launch that says ready and waits for a line.
func begin(t *testing.T, l *bwrap.Launch, o bwrap.StartOptions) (*bwrap.Process, func() bwrap.Exit) {
	t.Helper()
	inR, inW, err := os.Pipe()
	must(t, err)
	outW, out := gather(t)
	o.Streams = bwrap.Streams{Stdin: inR, Stdout: outW}
	p, err := bwrap.Start(t.Context(), l, o)
	must(t, err)
	outW.Close()
	inR.Close()
	out.until(t, "ready\n")
	return p, func() bwrap.Exit {
		t.Helper()
		inW.Close()
		e, err := p.Wait()
		must(t, err)
		return e
	}
}

// The mount point of a cover is there while a sandbox needs it, and gone when
// the last one has ended, whoever made it.
func TestCoversAreCounted(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	mkdir(t, dir+"/w")
	ghost := dir + "/w/secret"
	rec, err := plan.CreateRecord(dir + "/rec")
	must(t, err)
	defer rec.Close()
	script := "test -e " + ghost + " && ! ls " + ghost + " 2>/dev/null && ! rmdir " + ghost + " 2>/dev/null && echo ready; read x"
	state := bwrap.StartOptions{State: dir + "/state"}
	both := ghostly(t, ghost, script) // two launches that saw nothing there
	_, endA := begin(t, both, bwrap.StartOptions{State: dir + "/state", Record: rec})
	_, endB := begin(t, both, state)
	_, endC := begin(t, ghostly(t, ghost, script), state) // and one that saw the mount point
	for i, end := range []func() bwrap.Exit{endA, endB, endC} {
		if !exists(t, ghost) {
			t.Errorf("gone while %d still need it", 3-i)
		}
		end()
	}
	if exists(t, ghost) {
		t.Error("left behind")
	}
	if left, err := filepath.Glob(dir + "/state/covers/*.lease"); err != nil || len(left) > 0 {
		t.Errorf("leases left: %v, %v", left, err)
	}
	s, err := plan.ReadRecord(dir + "/rec")
	must(t, err)
	want := []plan.Step{{Action: "made", Kind: "mount_point", Path: ghost}, {Action: "held", Kind: "canaries"}} // C removed it
	ignore := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Time" || p.Last().String() == ".Detail" }, cmp.Ignore())
	if diff := cmp.Diff(want, s.Steps, ignore); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
}

// A launch that shows another's mount point needs it as well.
func TestCoversAreSharedWithGrants(t *testing.T) {
	t.Parallel()
	for access, try := range map[guard.Access]string{
		guard.ReadOnly:  "! touch $g/x 2>/dev/null",
		guard.ReadWrite: "touch $g/x && rm $g/x",
	} {
		t.Run(access.String(), func(t *testing.T) {
			t.Parallel()
			dir := lab(t)
			mkdir(t, dir+"/w")
			ghost, state := dir+"/w/secret", bwrap.StartOptions{State: dir + "/state"}
			_, endA := begin(t, ghostly(t, ghost, "echo ready; read x"), state)
			in := command("g=" + ghost + "; echo ready; read x; " + try)
			in.Entries = []guard.Entry{entry(t, dir+"/w", guard.ReadWrite), entry(t, ghost, access)}
			_, endB := begin(t, realLaunch(t, in), state)
			endA()
			if !exists(t, ghost) {
				t.Error("gone while it is needed")
			}
			if e := endB(); e.Code != 0 {
				t.Errorf("ended with %+v", e)
			}
			if exists(t, ghost) {
				t.Error("left behind")
			}
		})
	}
}

// What is no longer the empty thing that was made stays.
func TestCoversLeaveWhatIsUsed(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	mkdir(t, dir+"/w")
	ghost := dir + "/w/secret"
	l := ghostly(t, ghost, "echo ready; read x")
	_, end := begin(t, l, bwrap.StartOptions{State: dir + "/state"})
	must(t, os.Chmod(ghost, 0o755))
	file(t, ghost+"/mine", "x")
	end()
	if !exists(t, ghost+"/mine") {
		t.Error("somebody's file was removed")
	}
	must(t, os.RemoveAll(ghost))

	_, end = begin(t, ghostly(t, ghost, "echo ready; read x"), bwrap.StartOptions{State: dir + "/state"})
	must(t, os.Rename(ghost, dir+"/moved"))
	mkdir(t, ghost) // empty as well, but another one
	end()
	if !exists(t, ghost) || !exists(t, dir+"/moved") {
		t.Error("somebody's directory was removed")
	}
}

// A refused launch leaves nothing either.
func TestCoversOfARefusedLaunch(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	mkdir(t, dir+"/w")
	l := ghostly(t, dir+"/w/secret", "true")
	l.Args = append(l.Args, "--bind", "/nonexistent", "/tmp/x")
	if _, err := bwrap.Start(t.Context(), l, bwrap.StartOptions{State: dir + "/state"}); err == nil {
		t.Fatal("it started")
	}
	if exists(t, dir+"/w/secret") {
		t.Error("left behind")
	}
}

// A supervisor that was killed leaves the mount point; the next launch, or
// Reclaim, takes it away, and not under a sandbox that lives.
func TestReclaim(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	mkdir(t, dir+"/w")
	ghost, state := dir+"/w/secret", dir+"/state"
	cmd := helper(t, "echo ready; sleep 1000", helperState+"="+state, helperGhost+"="+ghost)
	w, out := gather(t)
	cmd.Stdout = w
	must(t, cmd.Start())
	w.Close()
	out.until(t, "ready\n")
	if got, err := bwrap.Reclaim(state); err != nil || len(got) > 0 || !exists(t, ghost) {
		t.Fatalf("reclaimed %v from a living sandbox: %v", got, err)
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	if !exists(t, ghost) {
		t.Fatal("nothing was left: the test shows nothing")
	}
	_, end := begin(t, ghostly(t, ghost, "echo ready; read x"), bwrap.StartOptions{State: state})
	if got, err := bwrap.Reclaim(state); err != nil || len(got) > 0 {
		t.Errorf("reclaimed %v: %v", got, err)
	}
	end()
	if exists(t, ghost) {
		t.Error("the next launch left it")
	}

	cmd = helper(t, "echo ready; sleep 1000", helperState+"="+state, helperGhost+"="+dir+"/w/a/b")
	mkdir(t, dir+"/w/a")
	w, out = gather(t)
	cmd.Stdout = w
	must(t, cmd.Start())
	w.Close()
	out.until(t, "ready\n")
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	got, err := bwrap.Reclaim(state)
	must(t, err)
	if diff := cmp.Diff([]string{dir + "/w/a/b"}, got); diff != "" || exists(t, dir+"/w/a/b") || !exists(t, dir+"/w/a") {
		t.Errorf("reclaimed: %s", diff)
	}
	if got, err := bwrap.Reclaim(state); err != nil || len(got) > 0 {
		t.Errorf("reclaimed twice: %v, %v", got, err)
	}
}

// Nothing is made or removed through a link that was put on the way.
func TestCoversFollowNoLink(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	mkdir(t, dir+"/w/sub")
	mkdir(t, dir+"/elsewhere")
	l := ghostly(t, dir+"/w/sub/secret", "true")
	must(t, os.Remove(dir+"/w/sub"))
	must(t, os.Symlink(dir+"/elsewhere", dir+"/w/sub"))
	if _, err := bwrap.Start(t.Context(), l, bwrap.StartOptions{State: dir + "/state"}); err == nil {
		t.Error("it started")
	}
	if exists(t, dir+"/elsewhere/secret") {
		t.Error("made through a link")
	}
}
