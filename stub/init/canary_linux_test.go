package main_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"pinfold/stub/seccomp"
	"pinfold/stub/wire"
)

// sample are the calls as the supervisor orders them.
func sample() []wire.Call {
	var list []wire.Call
	for _, p := range seccomp.Sample(runtime.GOARCH, seccomp.Base) {
		list = append(list, wire.Call{Name: p.Name, Number: p.Number, Args: p.Args, Errno: uint32(p.Want)})
	}
	return list
}

// claimed is a sandbox with a path of each kind, and its tree.
func claimed(t *testing.T) (*sandbox, tree) {
	t.Helper()
	tr := newTree(t)
	deny, file := filepath.Join(tr.dir, "deny"), filepath.Join(tr.dir, "empty")
	s := command("true")
	s.bwrap = []string{
		"--bind", tr.dir, tr.dir, "--ro-bind", tr.sub, tr.sub,
		"--perms", "0000", "--tmpfs", deny, "--remount-ro", deny,
		"--perms", "0444", "--ro-bind-data", "6", file,
	}
	s.extra = []*os.File{newMemfd(t, "empty", nil)}
	s.setup.Checks = []wire.Check{
		bind(t, tr.dir, false), bind(t, tr.file, false), bind(t, tr.sub, true), bind(t, "/usr/bin", true), bind(t, "/usr/bin/true", true),
		{Kind: wire.CheckEmptyDir, Path: deny, ReadOnly: true},
		{Kind: wire.CheckEmptyFile, Path: file, ReadOnly: true, Mode: 0o444},
		{Kind: wire.CheckAbsent, Path: filepath.Join(tr.dir, "nothing")},
		{Kind: wire.CheckPrivateDir, Path: "/tmp", Mode: 0o1777},
	}
	s.setup.Calls = sample()
	return s, tr
}

func TestCanariesHold(t *testing.T) {
	t.Parallel()
	s, tr := claimed(t)
	if landlockABI() >= wire.LandlockABI {
		s.setup.Landlock = wire.Landlock{Enabled: true, Writable: []string{tr.dir, "/tmp"}}
	}
	before := names(t, tr.dir)
	r := s.ran(t)
	want := wire.Canaries{Denied: 2, ReadOnly: 4, Writable: 3, Calls: len(s.setup.Calls), Hosts: 1}
	if r.tried != nil {
		want.Micros = r.tried.Micros // how long it took
	}
	if r.tried == nil || *r.tried != want {
		t.Errorf("tried %+v, wanted %+v", r.tried, want)
	}
	// Trying changes nothing: bubblewrap's mount points are all that is new.
	if diff := cmp.Diff(append([]string{"deny", "empty"}, before...), names(t, tr.dir)); diff != "" {
		t.Errorf("the directory (-want +got):\n%s", diff)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// TestCanarySurprises: each claim that doesn't hold refuses the launch, and
// is named.
func TestCanarySurprises(t *testing.T) {
	t.Parallel()
	requireLandlock(t, wire.LandlockABI)
	for name, c := range map[string]struct {
		change     func(s *sandbox, tr tree)
		path, text string
	}{
		"a rule that isn't there": {func(s *sandbox, _ tree) {
			s.setup.Calls = append(s.setup.Calls, wire.Call{Name: "getpid", Number: unix.SYS_GETPID, Errno: 1})
		}, "", "lets getpid through"},
		"a call that is refused": {func(s *sandbox, _ tree) {
			s.setup.Calls[len(s.setup.Calls)-2].Number = unix.SYS_MOUNT
		}, "", "socket AF_INET"},
		"a write grant that Landlock takes": {func(s *sandbox, _ tree) {
			s.setup.Landlock = wire.Landlock{Enabled: true, Writable: []string{"/dev/shm"}}
		}, "dir", "granted for writing"},
		"a file that Landlock takes": {func(s *sandbox, tr tree) {
			s.setup.Landlock = wire.Landlock{Enabled: true, Writable: []string{"/dev/shm"}}
			s.setup.Checks = []wire.Check{bind(t, tr.file, false)}
		}, "file", "granted for writing"},
		"a write grant that is mounted read-only": {func(s *sandbox, tr tree) {
			s.setup.Checks[2].ReadOnly = false
		}, "sub", "granted for writing"},
		"a network": {func(s *sandbox, _ tree) {
			s.shell = "ip link set lo up && ip address add 192.0.2.77/24 dev lo"
			s.network = true
		}, "", "can be reached"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, tr := claimed(t)
			c.change(s, tr)
			f := s.refused(t, wire.StepCanary)
			want := map[string]string{"": "", "dir": tr.dir, "file": tr.file, "sub": tr.sub}[c.path]
			if f.Path != want || !strings.Contains(f.Text, c.text) {
				t.Errorf("got %+v, wanted %q at %q", f, c.text, want)
			}
		})
	}
}

// TestCanariesLeave: what isn't the boundary's doing, or nobody should try,
// is counted and no surprise.
func TestCanariesLeave(t *testing.T) {
	t.Parallel()
	s, tr := claimed(t)
	if err := os.Chmod(tr.file, 0o444); err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(tr.sub, "fifo")
	if err := unix.Mkfifo(fifo, 0o666); err != nil {
		t.Fatal(err)
	}
	s.setup.Checks[2].ReadOnly = false // mounted read-only, and so on the host
	s.setup.HostReadOnly = []string{tr.sub}
	s.setup.Checks = append(s.setup.Checks, bind(t, fifo, true))
	if r := s.ran(t); r.tried == nil || r.tried.Left != 3 {
		t.Errorf("tried %+v, wanted 3 left", r.tried)
	}
}

func TestCanariesAreBounded(t *testing.T) {
	t.Parallel()
	s := command("true")
	for range 1000 {
		s.setup.Checks = append(s.setup.Checks, bind(t, "/usr/bin", true))
	}
	r := s.ran(t)
	if r.tried == nil || r.tried.ReadOnly != 250 || r.tried.Left != 750 {
		t.Errorf("tried %+v, wanted 250 of 1000", r.tried)
	}
}
