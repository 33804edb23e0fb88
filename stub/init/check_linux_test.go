package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// bind is the check of a path that is bound as the host has it.
func bind(t testing.TB, path string, readOnly bool) wire.Check {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(err)
	}
	return wire.Check{Kind: wire.CheckBind, Path: path, Dev: st.Dev, Ino: st.Ino, ReadOnly: readOnly}
}

// A tree is a directory of the test's own, outside /tmp inside because it is
// bound there.
type tree struct {
	dir, file, sub, link string
}

func newTree(t *testing.T) tree {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tr := tree{dir: dir, file: filepath.Join(dir, "file"), sub: filepath.Join(dir, "sub"), link: filepath.Join(dir, "link")}
	if err := os.WriteFile(tr.file, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(tr.sub, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(tr.file, tr.link); err != nil {
		t.Fatal(err)
	}
	return tr
}

// Every kind of check accepts what the builder makes for it.
func TestChecksPass(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	deny := filepath.Join(tr.dir, "deny")
	pass := filepath.Join(tr.dir, "pass")
	s := command("true")
	s.bwrap = []string{
		"--bind", tr.dir, tr.dir,
		"--ro-bind", tr.sub, tr.sub,
		"--perms", "0000", "--tmpfs", deny, "--remount-ro", deny,
		"--perms", "0111", "--tmpfs", pass, "--ro-bind", tr.sub, pass + "/sub", "--remount-ro", pass,
		"--perms", "0444", "--ro-bind-data", "6", tr.file,
		"--perms", "1777", "--tmpfs", "/var/tmp",
	}
	s.extra = []*os.File{seekStart(t, newMemfd(t, "data", []byte("{}")))}
	s.setup.Checks = []wire.Check{
		bind(t, tr.dir, false),
		bind(t, tr.sub, true),
		{Kind: wire.CheckEmptyDir, Path: deny, Mode: 0},
		{Kind: wire.CheckPassDir, Path: pass, Mode: 0o111},
		{Kind: wire.CheckEmptyFile, Path: tr.file, Mode: 0o444, Size: 2},
		{Kind: wire.CheckPrivateDir, Path: "/var/tmp", Mode: 0o1777},
		{Kind: wire.CheckAbsent, Path: tr.dir + "/nothing"},
		{Kind: wire.CheckAbsent, Path: "/dev/null/nothing"},
		{Kind: wire.CheckAbsent, Path: deny + "/sub/nothing"}, // closed, and stays so
		bind(t, "/usr", true),
	}
	s.ran(t)
}

func seekStart(t testing.TB, f *os.File) *os.File {
	t.Helper()
	if _, err := f.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	return f
}

// Each difference between the mounts and the orders refuses the launch, and
// is named.
func TestChecksRefuse(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	other := bind(t, tr.sub, true)
	other.Path = tr.dir
	ino := bind(t, tr.dir, true)
	ino.Ino++
	dev := bind(t, tr.dir, true)
	dev.Dev++
	hostShm := bind(t, "/dev/shm", false)
	hostShm.Kind, hostShm.Mode = wire.CheckPrivateDir, 0o1777
	rw := []string{"--bind", tr.dir, tr.dir}
	ro := []string{"--ro-bind", tr.dir, tr.dir}
	tmpfs := func(perms string, more ...string) []string {
		return append([]string{"--perms", perms, "--tmpfs", "/srv"}, more...)
	}
	for name, tc := range map[string]struct {
		bwrap []string
		check wire.Check
		text  string
	}{
		"another object":     {ro, other, "in the grant"},
		"another inode":      {ro, ino, "in the grant"},
		"another device":     {ro, dev, "in the grant"},
		"writable":           {rw, bind(t, tr.dir, true), "is writable"},
		"not there":          {nil, bind(t, tr.dir, true), "cannot be opened"},
		"a link":             {ro, bind(t, tr.link, true), "cannot be opened"},
		"through a link":     {ro, wire.Check{Kind: wire.CheckBind, Path: "/proc/self/root"}, "cannot be opened"},
		"a covered bind":     {append(ro, "--tmpfs", tr.dir), bind(t, tr.dir, false), "in the grant"},
		"no cover":           {ro, wire.Check{Kind: wire.CheckEmptyDir, Path: tr.sub, Dev: ino.Dev, Mode: 0o755}, "is not covered"},
		"no cover on a file": {ro, wire.Check{Kind: wire.CheckEmptyFile, Path: tr.file, Dev: ino.Dev, Mode: 0o644, Size: 2}, "is not covered"},
		"the host's tmpfs":   {[]string{"--bind", "/dev/shm", "/dev/shm"}, hostShm, "is not covered"},
		"a writable cover":   {tmpfs("0555"), wire.Check{Kind: wire.CheckEmptyDir, Path: "/srv", Mode: 0o555}, "is writable"},
		"a cover's mode":     {tmpfs("0755", "--remount-ro", "/srv"), wire.Check{Kind: wire.CheckEmptyDir, Path: "/srv", Mode: 0o555}, "has mode 0755, not 0555"},
		"a full cover":       {tmpfs("0000", "--dir", "/srv/x", "--remount-ro", "/srv"), wire.Check{Kind: wire.CheckEmptyDir, Path: "/srv"}, "holds 60 bytes, not 40"},
		"a cover's kind":     {tmpfs("0444", "--remount-ro", "/srv"), wire.Check{Kind: wire.CheckEmptyFile, Path: "/srv", Mode: 0o444}, "is of another kind"},
		"a pass dir's mode":  {tmpfs("0555", "--remount-ro", "/srv"), wire.Check{Kind: wire.CheckPassDir, Path: "/srv", Mode: 0o111}, "has mode 0555, not 0111"},
		"no private dir":     {ro, wire.Check{Kind: wire.CheckPrivateDir, Path: "/usr", Mode: 0o755}, "is read-only"},
		"host's as private":  {rw, wire.Check{Kind: wire.CheckPrivateDir, Path: tr.sub, Dev: ino.Dev, Mode: 0o755}, "is not covered"},
		"something":          {ro, wire.Check{Kind: wire.CheckAbsent, Path: tr.file}, "something stands"},
		"a link for nothing": {ro, wire.Check{Kind: wire.CheckAbsent, Path: tr.link}, "something stands"},
		"closed for now":     {tmpfs("0000"), wire.Check{Kind: wire.CheckAbsent, Path: "/srv/nothing"}, "something stands"},
		"unknown kind":       {ro, wire.Check{Kind: 99, Path: tr.file}, "unknown check 99"},
		"zero kind":          {ro, wire.Check{Path: tr.file}, "unknown check 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := command("true")
			s.bwrap = tc.bwrap
			s.setup.Checks = []wire.Check{bind(t, "/usr", true), tc.check}
			f := s.refused(t, wire.StepCheck)
			if f.Path != tc.check.Path || !strings.Contains(f.Text, tc.text) {
				t.Errorf("got %+v, wanted %q: %q", f, tc.check.Path, tc.text)
			}
		})
	}
}
