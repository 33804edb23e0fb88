package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/stub/seccomp"
	"pinfold/stub/wire"
)

// A container is one launch of the stub as pid 1, with the test as the
// supervisor. bubblewrap stands in for an engine.
type container struct {
	setup  wire.Setup
	errand wire.Errand

	cmd    *exec.Cmd
	dir    string // the supervisor's
	socket int    // that listens
	conn   int
	pid    int // of the stub, on the host
	nonce  [wire.NonceSize]byte
	notes  *os.File
	stdout *os.File
	said   map[wire.Type]int
	end    wire.End
	fail   *wire.Failure
	offer  []int
}

func contain(argv ...string) *container {
	return &container{setup: command(argv...).setup, conn: -1, said: map[wire.Type]int{}}
}

// start runs it up to the Orders.
func (c *container) start(t *testing.T) {
	t.Helper()
	requireBwrap(t)
	c.dir = t.TempDir()
	for i := range c.nonce {
		c.nonce[i] = byte(i)
	}
	if err := errors.Join(os.WriteFile(c.dir+"/nonce", c.nonce[:], 0o444), os.Chmod(c.dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	c.listen(t)
	program, err := seccomp.Program(runtime.GOARCH, seccomp.Unix) // the socket is one
	if err != nil {
		t.Fatal(err)
	}
	filter := newMemfd(t, "filter", program)
	if _, err := filter.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	args := []string{
		"--unshare-all", "--unshare-user", "--die-with-parent", "--as-pid-1", "--cap-drop", "ALL",
		"--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
		"--dev", "/dev", "--proc", "/proc", "--perms", "1777", "--tmpfs", "/tmp",
		"--ro-bind", stubPath, "/.pinfold/init", "--ro-bind", c.dir, wire.ContainerDir,
		"--seccomp", "3", "--", "/.pinfold/init", wire.ContainerArg,
	}
	c.cmd = exec.CommandContext(t.Context(), "bwrap", args...)
	c.cmd.ExtraFiles = []*os.File{filter}
	c.cmd.Stderr = os.Stderr
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	c.notes = mustFile(t, filepath.Join(t.TempDir(), "notes"))
	c.stdout = mustFile(t, filepath.Join(t.TempDir(), "stdout"))
	if again := c.accept(t); again {
		t.Fatal("the first call says that it isn't")
	}
}

func mustFile(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func (c *container) listen(t *testing.T) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(c.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	_ = os.Remove(c.dir + "/s")
	fresh := fmt.Sprintf("/proc/self/fd/%d/n", dir.Fd())
	err = errors.Join(unix.Bind(fd, &unix.SockaddrUnix{Name: fresh}), unix.Listen(fd, 8), os.Rename(c.dir+"/n", c.dir+"/s"))
	if err != nil {
		t.Fatal(err)
	}
	c.socket = fd
	t.Cleanup(func() { unix.Close(fd) })
}

// accept takes one call of the stub's.
func (c *container) accept(t *testing.T) (again bool) {
	t.Helper()
	timeout := &unix.Timeval{Sec: 20}
	if err := unix.SetsockoptTimeval(c.socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, timeout); err != nil {
		t.Fatal(err)
	}
	fd, _, err := unix.Accept4(c.socket, unix.SOCK_CLOEXEC)
	for errors.Is(err, unix.EINTR) {
		fd, _, err = unix.Accept4(c.socket, unix.SOCK_CLOEXEC)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, timeout); err != nil {
		t.Fatal(err)
	}
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		t.Fatal(err)
	}
	c.conn, c.pid = fd, int(cred.Pid)
	b, _, _ := receive(t, fd)
	hail, err := wire.DecodeHail(b)
	if err != nil || hail.Nonce != c.nonce {
		t.Fatalf("the call is %+v, %v", hail, err)
	}
	return hail.Again
}

func (c *container) send(t *testing.T, b []byte, fds ...int) {
	t.Helper()
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	if err := unix.Sendmsg(c.conn, b, oob, nil, unix.MSG_NOSIGNAL); err != nil {
		t.Fatal(err)
	}
}

// hangUp ends the conversation. The descriptor stays until the test's end:
// closed here and there it could be another test's by then.
func (c *container) hangUp(t *testing.T) {
	t.Helper()
	if err := unix.Shutdown(c.conn, unix.SHUT_RDWR); err != nil {
		t.Fatal(err)
	}
}

// order gives the orders.
func (c *container) order(t *testing.T) {
	t.Helper()
	null := mustOpen(t, "/dev/null")
	setup := (&sandbox{setup: c.setup}).memfd(t)
	c.send(t, wire.EncodeOrders(&c.errand), int(setup.Fd()), int(c.notes.Fd()), int(null.Fd()), int(c.stdout.Fd()), int(c.stdout.Fd()))
}

func mustOpen(t *testing.T, name string) *os.File {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// until hears the stub until it has said something of a kind; Hello is
// answered.
func (c *container) until(t *testing.T, kind wire.Type) {
	t.Helper()
	for c.said[kind] == 0 {
		b, fds, _ := receive(t, c.conn)
		if len(b) == 0 {
			t.Fatalf("the stub hung up before it said %d: %v, %+v", kind, c.said, c.fail)
		}
		c.take(t, b, fds)
	}
}

func (c *container) take(t *testing.T, b []byte, fds []int) {
	t.Helper()
	got, err := wire.PacketType(b)
	if err != nil {
		t.Fatalf("%q: %v", b, err)
	}
	c.said[got]++
	switch got {
	case wire.Offer:
		c.offer = fds
	case wire.Hello:
		c.send(t, wire.EncodeSignal(wire.Go))
	case wire.Failed:
		c.fail, err = wire.DecodeFailure(b)
	case wire.Ended:
		c.end, err = wire.DecodeEnded(b)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// run starts the command.
func (c *container) run(t *testing.T) {
	t.Helper()
	c.start(t)
	c.order(t)
	c.until(t, wire.Running)
}

// wait says goodbye and takes the container's own status.
func (c *container) wait(t *testing.T) int {
	t.Helper()
	c.until(t, wire.Ended)
	c.send(t, wire.EncodeSignal(wire.Bye))
	err := c.cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return c.cmd.ProcessState.ExitCode()
}

func content(t *testing.T, f *os.File) string {
	t.Helper()
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestKeeperRunsTheCommand(t *testing.T) {
	t.Parallel()
	c := contain("sh", "-c", "echo out; echo $A; exit 7")
	c.setup.Env = append(c.setup.Env, "A=secret value")
	c.run(t)
	if code := c.wait(t); code != 7 || c.end != (wire.End{Code: 7}) {
		t.Errorf("status %d, told %+v", code, c.end)
	}
	if got := content(t, c.stdout); got != "out\nsecret value\n" {
		t.Errorf("it wrote %q", got)
	}
	if got := content(t, c.notes); got != "exit 7\n" {
		t.Errorf("the notes are %q", got)
	}
	if c.said[wire.Tried] != 1 || c.said[wire.Ready] != 1 || c.said[wire.Child] != 1 || c.said[wire.Termed] != 0 {
		t.Errorf("said %v", c.said)
	}
}

func TestKeeperTellsASignalFromAnExit(t *testing.T) {
	t.Parallel()
	c := contain("sh", "-c", "kill -KILL $$")
	c.run(t)
	if code := c.wait(t); code != 137 || c.end != (wire.End{Code: 137, Signal: 9}) {
		t.Errorf("status %d, told %+v", code, c.end)
	}
	if got := content(t, c.notes); got != "signal 9\n" {
		t.Errorf("the notes are %q", got)
	}
}

// TestKeeperFailsWhereTheCommandDoes: what can't be executed is told as in the
// process tier.
func TestKeeperFailsWhereTheCommandDoes(t *testing.T) {
	t.Parallel()
	c := contain("/no/such/program")
	c.start(t)
	c.order(t)
	c.until(t, wire.Failed)
	if c.fail.Step != wire.StepExec || c.fail.Errno != int(unix.ENOENT) {
		t.Errorf("failed with %+v", c.fail)
	}
	if code := c.wait(t); code != 125 || c.said[wire.Running] != 0 {
		t.Errorf("status %d, said %v", code, c.said)
	}
}

// waitFor polls a file that something inside writes.
func waitFor(t *testing.T, f *os.File, want string) {
	t.Helper()
	end := time.Now().Add(20 * time.Second)
	for !strings.Contains(content(t, f), want) {
		if time.Now().After(end) {
			t.Fatalf("%q never said %q: %q", f.Name(), want, content(t, f))
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestKeeperKnowsWhoseSIGTERM: one from outside is noted and told, one from
// inside is passed on and neither.
func TestKeeperKnowsWhoseSIGTERM(t *testing.T) {
	t.Parallel()
	const script = `trap 'echo got; n=$((n+1))' TERM; kill -TERM 1; n=0; echo up; while [ $n -lt 2 ]; do sleep 0.02; done; exit 5`
	c := contain("sh", "-c", script)
	c.run(t)
	waitFor(t, c.stdout, "got")
	if got := content(t, c.notes); got != "" {
		t.Errorf("a SIGTERM from inside is noted: %q", got)
	}
	if err := unix.Kill(c.pid, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.until(t, wire.Termed)
	waitFor(t, c.stdout, "up\ngot\n")
	c.send(t, wire.EncodeKill(int(unix.SIGTERM)))
	if code := c.wait(t); code != 5 {
		t.Errorf("status %d", code)
	}
	if got := content(t, c.notes); got != "term\nexit 5\n" {
		t.Errorf("the notes are %q", got)
	}
}

// TestKeeperHearsTheEngine: a flood of SIGTERM from inside, of which the kernel
// keeps one at a time, hides nothing that comes by the signal of the engine's.
func TestKeeperHearsTheEngine(t *testing.T) {
	t.Parallel()
	const script = `trap '' TERM; for i in 1 2 3; do (while :; do kill -TERM 1; done) & done; echo up; sleep 1000`
	c := contain("sh", "-c", script)
	c.run(t)
	waitFor(t, c.stdout, "up")
	const words = 20
	for range words {
		if err := unix.Kill(c.pid, wire.StopSignal); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, c.notes, strings.Repeat(wire.NoteTerm+"\n", words))
	c.until(t, wire.Termed)
	c.send(t, wire.EncodeKill(int(unix.SIGKILL)))
	c.wait(t)
}

// TestKeeperKnowsNamelessSignals: when as many signals wait as may, the kernel
// delivers what tgkill(2) sends without its sender, which looks as if it came
// from outside. The command can't make that many wait.
func TestKeeperKnowsNamelessSignals(t *testing.T) {
	t.Parallel()
	calls, ok := map[string][2]int{"amd64": {129, 234}, "arm64": {138, 131}}[runtime.GOARCH] // rt_sigqueueinfo, tgkill
	if !ok {
		t.Skipf("no numbers of system calls for %s", runtime.GOARCH)
	}
	for _, share := range []bool{true, false} {
		c := contain("perl", "-MPOSIX", "-e", fmt.Sprintf(`
			sigprocmask(SIG_BLOCK, POSIX::SigSet->new(40, 15));
			my $info = pack("i4 i2 x104", 40, 0, -1, 0, $$, 0);
			1 while syscall(%d, $$, 40, $info) == 0;
			syscall(%d, 1, 1, 15);
			print "sent\n"; $| = 1; select(undef, undef, undef, 0.3); POSIX::_exit(3);`, calls[0], calls[1]))
		c.setup.ShareSignals = share
		c.start(t)
		// What waits counts for the user, so that the many of a real limit would be
		// felt by the whole machine.
		const few = 1000
		if err := unix.Prlimit(c.pid, unix.RLIMIT_SIGPENDING, &unix.Rlimit{Cur: few, Max: few}, nil); err != nil {
			t.Fatal(err)
		}
		c.order(t)
		c.until(t, wire.Running)
		if code := c.wait(t); code != 3 || content(t, c.stdout) != "" && !strings.Contains(content(t, c.stdout), "sent") {
			t.Errorf("status %d, %q", code, content(t, c.stdout))
		}
		if got := strings.Contains(content(t, c.notes), wire.NoteTerm); got == share {
			t.Errorf("shared: %v, forged: %v", share, got)
		}
	}
}

// TestKeeperIsOutOfReach: what the command may try on pid 1 of its own user.
func TestKeeperIsOutOfReach(t *testing.T) {
	t.Parallel()
	const script = `for f in environ mem maps fd/0 fd/5 map_files cwd/ root/etc; do cat /proc/1/$f >/dev/null 2>&1 && echo "reads $f"; done
readlink /proc/1/exe /proc/1/cwd /proc/1/fd/5
for s in KILL STOP SEGV ABRT PIPE ALRM XCPU SYS 40; do kill -$s 1; done; sleep 0.1; echo "alive $(ls /proc/1 >/dev/null && echo yes)"; exit 3`
	c := contain("sh", "-c", script)
	c.run(t)
	if code := c.wait(t); code != 3 {
		t.Errorf("status %d", code)
	}
	if got := content(t, c.stdout); got != "alive yes\n" {
		t.Errorf("it wrote %q", got)
	}
}

// TestKeeperReapsOrphans: nothing that was forked away stays a zombie.
func TestKeeperReapsOrphans(t *testing.T) {
	t.Parallel()
	const script = `for i in 1 2 3; do (sh -c 'exit 0' & ) ; done; sleep 0.3; grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null; exit 0`
	c := contain("sh", "-c", script)
	c.run(t)
	if code := c.wait(t); code != 0 {
		t.Errorf("status %d", code)
	}
	if got := content(t, c.stdout); got != "" {
		t.Errorf("zombies: %q", got)
	}
}

// TestKeeperOffersItsListenersAgain: a supervisor that was lost is missed by
// nobody who waits.
func TestKeeperOffersItsListenersAgain(t *testing.T) {
	t.Parallel()
	c := contain("sh", "-c", "while [ ! -e /tmp/never ]; do sleep 0.05; done")
	c.errand.Listen = []string{"127.0.0.1:3128", "127.0.0.1:8080"}
	c.run(t)
	if len(c.offer) != 2 {
		t.Fatalf("%d listeners", len(c.offer))
	}
	for range 3 {
		first := inode(t, c.offer[0])
		c.hangUp(t)
		c.listen(t)
		if again := c.accept(t); !again {
			t.Fatal("the call doesn't say that it isn't the first")
		}
		c.offer, c.said = nil, map[wire.Type]int{}
		c.send(t, wire.EncodeSignal(wire.Again))
		c.until(t, wire.Child)
		if len(c.offer) != 2 || inode(t, c.offer[0]) != first {
			t.Fatalf("other listeners: %v", c.offer)
		}
	}
	c.send(t, wire.EncodeKill(int(unix.SIGTERM)))
	if code := c.wait(t); code != 143 {
		t.Errorf("status %d", code)
	}
}

func inode(t *testing.T, fd int) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		t.Fatal(err)
	}
	return st.Ino
}

// TestKeeperEndsWithoutAnAnswer: a supervisor that hangs up before the command
// runs has let nothing go.
func TestKeeperEndsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	c := contain("sh", "-c", "echo ran")
	c.start(t)
	c.hangUp(t)
	if err := c.cmd.Wait(); c.cmd.ProcessState.ExitCode() != 125 {
		t.Errorf("it ended with %v", err)
	}
	if got := content(t, c.stdout); got != "" {
		t.Errorf("it wrote %q", got)
	}
}

// TestKeeperEndsUnattended: with nobody there the command ends as it ends, and
// the notes say how.
func TestKeeperEndsUnattended(t *testing.T) {
	t.Parallel()
	c := contain("sh", "-c", "echo up; while [ ! -e /tmp/end ]; do sleep 0.05; [ -s /tmp/never ] && exit; n=$((n+1)); [ $n -gt 10 ] && exit 9; done")
	c.run(t)
	if err := os.Remove(c.dir + "/s"); err != nil {
		t.Fatal(err)
	}
	c.hangUp(t)
	err := c.cmd.Wait()
	if code := c.cmd.ProcessState.ExitCode(); code != 9 {
		t.Errorf("it ended with %d, %v", code, err)
	}
	if got := content(t, c.notes); got != "exit 9\n" {
		t.Errorf("the notes are %q", got)
	}
	if b, err := os.ReadFile(c.notes.Name()); err != nil || !bytes.HasSuffix(b, []byte("\n")) {
		t.Errorf("notes %q, %v", b, err)
	}
}
