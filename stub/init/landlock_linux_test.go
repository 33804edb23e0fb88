package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// landlockABI is the kernel's version, or 0.
func landlockABI() int {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(abi)
}

func requireLandlock(t *testing.T, abi int) {
	t.Helper()
	if got := landlockABI(); got < abi {
		t.Skipf("the kernel's Landlock is version %d, wanted %d", got, abi)
	}
}

// landlocked runs a script with two writable binds, of which Landlock allows
// one: what a mount leaves open, the second layer closes.
func landlocked(t *testing.T, script string) (*sandbox, tree, tree) {
	t.Helper()
	in, out := newTree(t), newTree(t)
	s := command("bash", "-c", "cd "+in.dir+"; out="+out.dir+"\n"+script)
	s.bwrap = []string{"--bind", in.dir, in.dir, "--bind", out.dir, out.dir}
	s.setup.Landlock = wire.Landlock{
		Enabled: true, Writable: []string{in.dir, "/dev/shm", "/dev/pts"}, WriteFiles: []string{"/dev/null", "/dev/tty"},
	}
	return s, in, out
}

func TestLandlockAllows(t *testing.T) {
	t.Parallel()
	requireLandlock(t, wire.LandlockABI)
	s, in, _ := landlocked(t, `set -e
		echo a >new; echo b >>new; : >file; mkdir -p d/e; mv new d/e/new; ln d/e/new hard; ln -s x soft
		mkfifo pipe; rm file soft pipe; mv d dd; cat dd/e/new; echo x >/dev/null; echo y >/dev/shm/y; rm -r dd
		test ! -e file; cat /etc/passwd >/dev/null; /bin/true`)
	if r := s.ran(t); r.code != 0 || r.stdout != "a\nb\n" || r.stderr != "" {
		t.Errorf("status %d, stdout %q, stderr %q", r.code, r.stdout, r.stderr)
	}
	if _, err := os.Stat(filepath.Join(in.dir, "hard")); err != nil {
		t.Error(err)
	}
}

func TestLandlockRefuses(t *testing.T) {
	t.Parallel()
	requireLandlock(t, 3)
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o666); err != nil {
		t.Fatal(err)
	}
	s, _, out := landlocked(t, `
		for c in 'echo x >$out/new' 'echo x >>$out/file' ': >$out/file' 'mkdir $out/d' 'rm $out/file' 'rmdir $out/sub' \
			'ln -s x $out/l' 'mkfifo $out/p' 'mv $out/file $out/f' 'mv file $out/moved' 'mv $out/file got' \
			'truncate -s 0 $out/file' 'ln $out/file here' 'exec 3<>`+fifo+`' 'echo x >/dev/full' ; do
			( eval "$c" ) 2>/dev/null && echo "allowed: $c"
		done
		cat $out/file; true`)
	s.bwrap = append(s.bwrap, "--ro-bind", filepath.Dir(fifo), filepath.Dir(fifo))
	if r := s.ran(t); r.stdout != "{}" {
		t.Errorf("stdout %q, stderr %q", r.stdout, r.stderr)
	}
	if b, err := os.ReadFile(out.file); string(b) != "{}" {
		t.Errorf("the file holds %q, %v", b, err)
	}
}

// The control: without Landlock the same mounts let the writes through.
func TestWithoutLandlockTheMountsAreOpen(t *testing.T) {
	t.Parallel()
	s, _, out := landlocked(t, "echo x >$out/file")
	s.setup.Landlock = wire.Landlock{}
	s.ran(t)
	if b, err := os.ReadFile(out.file); string(b) != "x\n" {
		t.Errorf("the file holds %q, %v", b, err)
	}
}

// A standard stream that is a file outside the grants can be opened again, as
// scripts do with /dev/stdout; its neighbours can't.
func TestLandlockLetsStreamsReopen(t *testing.T) {
	t.Parallel()
	requireLandlock(t, wire.LandlockABI)
	s, _, out := landlocked(t, "echo one >/dev/stdout; echo two >&2; echo three >>/dev/stdout; echo x >$out/other")
	log, err := os.OpenFile(out.file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	s.stdout = log
	r := s.ran(t)
	if b, err := os.ReadFile(out.file); string(b) != "one\nthree\n" {
		t.Errorf("the log holds %q, %v; stderr %q", b, err, r.stderr)
	}
	if !strings.Contains(r.stderr, "two\n") || r.code == 0 {
		t.Errorf("status %d, stderr %q", r.code, r.stderr)
	}
}

func TestLandlockScopesSignals(t *testing.T) {
	t.Parallel()
	requireLandlock(t, 6)
	s, _, _ := landlocked(t, `sleep 9 & kill -0 $! && kill $! && echo own; kill -0 1 || echo not pid 1`)
	s.setup.Landlock.Scope = true
	if r := s.ran(t); r.stdout != "own\nnot pid 1\n" {
		t.Errorf("stdout %q, stderr %q", r.stdout, r.stderr)
	}
}

func TestLandlockMissingPathRefuses(t *testing.T) {
	t.Parallel()
	requireLandlock(t, wire.LandlockABI)
	s, in, _ := landlocked(t, "true")
	for _, path := range []string{"/nonexistent", in.link} {
		s.setup.Landlock.Writable = []string{path}
		if f := s.refused(t, wire.StepLandlock); f.Path != path {
			t.Errorf("got %+v", f)
		}
	}
}
