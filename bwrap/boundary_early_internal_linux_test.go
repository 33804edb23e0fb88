package bwrap

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"pinfold/guard"
)

// earlyRecipes are what is covered in a sandbox, one of each kind.
func earlyRecipes() map[string]recipe {
	return map[string]recipe{
		"file": {kind: showReadOnly}, "dir": {kind: showReadOnly},
		"hidden": {kind: hideAll, mode: emptyFile, content: []byte("{}\n")}, "gone": {kind: hideAll},
	}
}

// earlyLab is a sandbox with everything covered, and a mend that has begun when
// the host has replaced it all.
func earlyLab(t *testing.T) (dir string, m *mending) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"dir", "gone", "new/dir", "new/gone"} {
		if err := errors.Join(os.MkdirAll(dir+"/"+name, 0o755), os.WriteFile(dir+"/"+name+"/in", []byte("text"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"file", "hidden", "old", "new/file", "new/hidden"} {
		if err := os.WriteFile(dir+"/"+name, []byte("text"+name[:3]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	args := []string{"--unshare-user", "--unshare-pid", "--die-with-parent", "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc"}
	for name := range earlyRecipes() {
		args = append(args, "--ro-bind", dir+"/"+name, dir+"/"+name)
	}
	// One that lies beneath, which goes along and is to be left on.
	args = append(args, "--ro-bind", dir+"/old", dir+"/new/dir/in")
	init := sandbox(t, append(args, "sh", "-c", "echo ready; exec sleep 1000"))
	m = mendingOf(t, dir, init)
	for name := range earlyRecipes() {
		if err := errors.Join(os.Rename(dir+"/"+name, dir+"/old-"+name), os.Rename(dir+"/new/"+name, dir+"/"+name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir, m
}

// sandbox starts bubblewrap and answers its pid 1.
func sandbox(t *testing.T, args []string) int {
	t.Helper()
	cmd := exec.Command("bwrap", args...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%q %v", line, err)
	}
	return childrenOfAll(cmd.Process.Pid)[0]
}

func mendingOf(t *testing.T, dir string, init int) *mending {
	t.Helper()
	b := &boundary{launch: &Launch{recipes: map[string]recipe{}}, init: init, taker: &taker{}, notify: &names{}, noted: map[string]bool{}, mounts: map[int]seenMount{}}
	var err error
	b.root, err = openOf(init, "root", unix.O_PATH|unix.O_DIRECTORY)
	if err == nil {
		b.table, err = openOf(init, "mountinfo", unix.O_RDONLY)
	}
	if err = errors.Join(err, b.openNamespaces(init)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.forget)
	list, err := b.readTable()
	if err != nil {
		t.Fatal(err)
	}
	for _, have := range list {
		b.mounts[have.ID] = seenMount{have, have.Path != dir+"/new/dir/in"}
	}
	for name, r := range earlyRecipes() {
		p := dir + "/" + name
		b.launch.recipes[p] = r
		b.points = append(b.points, point{path: p, want: b.identify(p), up: b.identify(dir)})
	}
	m := &mending{boundary: b, early: map[string]*early{}, gone: map[string]bool{}, harmless: map[int]guard.MountPoint{}}
	t.Cleanup(func() {
		if m.halt != nil {
			m.halt.letGo()
		}
		m.endEarly(false)
	})
	return m
}

// What the host has replaced is covered before anybody is proved to stand, as it
// is asked for, and the covers become the points' when all do.
func TestEarlyCovers(t *testing.T) {
	t.Parallel()
	dir, m := earlyLab(t)
	m.stopEarly()
	if m.runsOn != nil || len(m.early) != len(m.points) {
		t.Fatalf("%v, %d early covers", m.runsOn, len(m.early))
	}
	for i := range m.points {
		p := &m.points[i]
		r := m.launch.recipes[p.path]
		e := m.early[p.path]
		if got := m.identify(p.path); got.mount != e.mount || !got.covers(e.object.identity, r) {
			t.Errorf("%s: %+v over %+v", p.path, got, e.object.identity)
		}
		if l := m.newMounts(); l != nil {
			t.Errorf("%s: taken for the host's: %v", p.path, l)
		}
		if ok, err := m.confirm(p, r, e); !ok || err != nil {
			t.Errorf("%s: %v, %v", p.path, ok, err)
		}
	}
	if l := m.compareTable(); l != nil || !m.same() {
		t.Errorf("they aren't the points': %v", l)
	}
	shows(t, m, dir+"/file", "textnew", 0o644)
	shows(t, m, dir+"/hidden", "{}\n", emptyFile)
	shows(t, m, dir+"/dir/in", "textold", 0o644)
	if id := m.identify(dir + "/gone/in"); id.err != unix.ENOENT && id.err != unix.EACCES {
		t.Errorf("in what is hidden: %+v", id)
	}
}

func shows(t *testing.T, m *mending, path, want string, mode uint32) {
	t.Helper()
	fd, err := openInside(m.root, path)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	text, err := os.ReadFile("/proc/self/fd/" + strconv.Itoa(fd))
	if err = errors.Join(err, unix.Fstat(fd, &st)); err != nil || string(text) != want || st.Mode&0o777 != mode {
		t.Errorf("%s: %q, mode %o, %v", path, text, st.Mode, err)
	}
}

// The kernel gives the numbers of a mount and of what is on it again: an early
// cover that looks like the one that was there is confirmed all the same, or it
// would be taken off as one that nobody wants.
func TestEarlyCoversLikeTheFirst(t *testing.T) {
	t.Parallel()
	_, m := earlyLab(t)
	m.stopEarly()
	for i := range m.points {
		p := &m.points[i]
		p.want = m.identify(p.path)
	}
	if l := m.mendPoints(); l != nil || len(m.early) != 0 || len(m.did) != len(m.points) {
		t.Fatalf("%v, %d left, %d mended", l, len(m.early), len(m.did))
	}
	m.endEarly(true)
	if !m.same() {
		t.Error("they were taken off")
	}
}

// A cover whose place was given another name is none, and is taken off there,
// though somebody has opened it; and what lies beneath is left as it is.
func TestEarlyCoversMoved(t *testing.T) {
	t.Parallel()
	dir, m := earlyLab(t)
	m.stopEarly()
	for i := range m.points {
		p := &m.points[i]
		e := m.early[p.path]
		delete(m.early, p.path)
		open, err := openInside(m.root, p.path)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(open)
		to := dir + "/moved-" + filepath.Base(p.path)
		if err := os.Rename(p.path, to); err != nil {
			t.Fatal(err)
		}
		if got := m.identify(to); got.mount != e.mount {
			t.Errorf("%s: the cover didn't go along: %+v", to, got)
		}
		want := e.object.identity
		if ok, err := m.confirm(p, m.launch.recipes[p.path], e); ok || err != nil {
			t.Errorf("%s: %v, %v", p.path, ok, err)
		}
		if got := m.identify(to); got != want {
			t.Errorf("%s: %+v, wanted %+v", to, got, want)
		}
	}
	list, err := m.readTable()
	n := 0
	for _, have := range list {
		if isBelow(have.Path, dir) {
			n++
		}
	}
	if err != nil || n != len(m.points)+1 { // what bubblewrap has mounted, which went along
		t.Errorf("%v, %d mounts: %+v", err, n, list)
	}
}

// Whoever has opened something through its cover has no hold of it, and who has
// opened what lies beneath has.
func TestHolderThroughCover(t *testing.T) {
	t.Parallel()
	dir, m := earlyLab(t)
	fd, err := unix.Open(dir+"/file", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	m.stopEarly()
	through, err := openInside(m.root, dir+"/file")
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(through)
	o := m.early[dir+"/file"].object
	link := func(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }
	if !o.is(link(through)) || !o.is(link(fd)) {
		t.Error("without a cover it makes no difference")
	}
	o.cover = m.early[dir+"/file"].mount
	if o.is(link(through)) || !o.is(link(fd)) {
		t.Errorf("through the cover: %v, beneath: %v", o.is(link(through)), o.is(link(fd)))
	}
}
