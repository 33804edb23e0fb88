package main_test

import (
	"bytes"
	"context"
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

	"pinfold/stub"
	"pinfold/stub/seccomp"
	"pinfold/stub/wire"
)

// stubPath is the program under test, built once from these sources.
var stubPath string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "pinfold-init-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	stubPath = filepath.Join(dir, "stub")
	if err := provideStub(stubPath); err != nil {
		fmt.Fprintln(os.Stderr, "cannot provide the stub:", err)
		return 1
	}
	return m.Run()
}

// provideStub builds the stub from these sources. A test binary that runs
// where they can't be built (another user, no compiler) takes the embedded one
// and says so.
func provideStub(path string) error {
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", path, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	if err == nil {
		return nil
	}
	b, missing := stub.Binary(runtime.GOARCH)
	if missing != nil {
		return fmt.Errorf("%w: %s (%w)", err, out, missing)
	}
	fmt.Fprintln(os.Stderr, "cannot build the stub, so the embedded one is tested:", err)
	return os.WriteFile(path, b, 0o755)
}

// A sandbox is one launch of the stub in bubblewrap, with the test as the
// supervisor.
type sandbox struct {
	setup    wire.Setup
	bwrap    []string // arguments after the common ones
	raw      []byte   // instead of the encoded setup
	unsealed bool     // leave the memfd open to writers
	noFilter bool     // leave the seccomp program out
	noGo     bool     // hang up instead of saying Go
	stdin    io.Reader
	extra    []*os.File // leaked into bubblewrap
	stdout   *os.File   // instead of a buffer
	onHello  func(t testing.TB, fds []int)
	onReady  func(t testing.TB, cred *unix.Ucred)
	keepCaps bool
	network  bool   // of a namespace that has a route, made by unshare(1)
	shell    string // run by sh before it becomes bubblewrap
}

// A result is what the supervisor saw.
type result struct {
	hello   wire.Greeting
	cred    *unix.Ucred
	ready   bool
	tried   *wire.Canaries
	failure *wire.Failure
	stdout  string
	stderr  string
	code    int
	cpu     time.Duration
	proof   time.Duration // from Go to Ready: checks, Landlock and canaries
}

// command is a sandbox that runs argv.
func command(argv ...string) *sandbox {
	return &sandbox{setup: wire.Setup{
		Version: wire.Version, Argv: argv, Dir: "/", Umask: 0o22,
		Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin"},
	}}
}

// launch runs it to the end.
func (s *sandbox) launch(t testing.TB) *result {
	t.Helper()
	requireBwrap(t)
	ours, theirs := controlPair(t)
	argv := append([]string{"-c", s.shell + "\nexec bwrap \"$@\"", "sh"}, s.args(t)...)
	cmd := exec.CommandContext(context.Background(), "sh", argv...)
	if s.network {
		cmd = exec.CommandContext(context.Background(), "unshare", append([]string{"-Urn", "sh"}, argv...)...)
	}
	cmd.Stdin = s.stdin
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if s.stdout != nil {
		cmd.Stdout = s.stdout
	}
	cmd.ExtraFiles = append([]*os.File{s.memfd(t), theirs, s.filter(t)}, s.extra...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	r := &result{}
	s.supervise(t, ours, r)
	err := cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	r.stdout, r.stderr, r.code = stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
	r.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return r
}

// ran launches a command that must have run.
func (s *sandbox) ran(t testing.TB) *result {
	t.Helper()
	r := s.launch(t)
	if r.failure != nil || !r.ready {
		t.Fatalf("the command didn't run: %+v (ready: %v) %s", r.failure, r.ready, r.stderr)
	}
	return r
}

// refused launches one that must not have, at the step named.
func (s *sandbox) refused(t testing.TB, step string) *wire.Failure {
	t.Helper()
	r := s.launch(t)
	if r.failure == nil {
		t.Fatalf("it ran: stdout %q, stderr %q", r.stdout, r.stderr)
	}
	if r.failure.Step != step {
		t.Fatalf("refused with %+v, wanted step %q", r.failure, step)
	}
	if r.code != 125 {
		t.Errorf("status %d, wanted 125", r.code)
	}
	return r.failure
}

func (s *sandbox) args(t testing.TB) []string {
	t.Helper()
	args := []string{
		"--unshare-all", "--unshare-user", "--new-session", "--die-with-parent",
		"--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
		"--perms", "1777", "--tmpfs", "/tmp", "--tmpfs", "/dev/shm",
		"--ro-bind", stubPath, "/dev/.pinfold",
	}
	if s.network {
		args = append(args, "--share-net")
	}
	if !s.keepCaps {
		args = append(args, "--cap-drop", "ALL")
	}
	if !s.noFilter {
		args = append(args, "--seccomp", "5")
	}
	return append(append(args, s.bwrap...), "--", "/dev/.pinfold")
}

// supervise is the supervisor's side of the conversation.
func (s *sandbox) supervise(t testing.TB, ours int, r *result) {
	t.Helper()
	var went time.Time
	for {
		b, fds, cred := receive(t, ours)
		if len(b) == 0 {
			return // end of file
		}
		kind, err := wire.PacketType(b)
		if err != nil {
			t.Fatalf("packet %q: %v", b, err)
		}
		switch kind {
		case wire.Hello:
			if r.hello, err = wire.DecodeHello(b); err != nil {
				t.Fatal(err)
			}
			if len(fds) != r.hello.Descriptors() {
				t.Errorf("%d descriptors with %+v", len(fds), r.hello)
			}
			r.cred = cred
			went = time.Now()
			s.answer(t, ours, fds)
		case wire.Ready:
			r.ready, r.proof = true, time.Since(went)
			if s.onReady != nil {
				s.onReady(t, r.cred)
			}
		case wire.Tried:
			c, err := wire.DecodeTried(b)
			if err != nil || r.ready {
				t.Fatalf("%+v, %v (ready: %v)", c, err, r.ready)
			}
			r.tried = &c
		case wire.Failed:
			if r.failure, err = wire.DecodeFailure(b); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func (s *sandbox) answer(t testing.TB, ours int, fds []int) {
	t.Helper()
	if s.onHello != nil {
		s.onHello(t, fds)
	}
	if s.noGo {
		if err := unix.Shutdown(ours, unix.SHUT_WR); err != nil {
			t.Fatal(err)
		}
		return
	}
	if _, err := unix.Write(ours, wire.EncodeSignal(wire.Go)); err != nil {
		t.Fatal(err)
	}
}

// memfd is the sealed setup.
func (s *sandbox) memfd(t testing.TB) *os.File {
	t.Helper()
	b := s.raw
	if b == nil {
		b = wire.EncodeSetup(&s.setup)
	}
	f := newMemfd(t, "setup", b)
	if !s.unsealed {
		seals := unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
		if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// filter is the base program, read from its start.
func (s *sandbox) filter(t testing.TB) *os.File {
	t.Helper()
	program, err := seccomp.Program(runtime.GOARCH, seccomp.Base)
	if err != nil {
		t.Fatal(err)
	}
	f := newMemfd(t, "filter", program)
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	return f
}

func newMemfd(t testing.TB, name string, b []byte) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fd), name)
	t.Cleanup(func() { f.Close() })
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	return f
}

// controlPair is the supervisor's end, which asks for credentials and gives
// up after a while, and the stub's.
func controlPair(t testing.TB) (int, *os.File) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(pair[0]) })
	if err := unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		t.Fatal(err)
	}
	if err := unix.SetsockoptTimeval(pair[0], unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 20}); err != nil {
		t.Fatal(err)
	}
	return pair[0], os.NewFile(uintptr(pair[1]), "control")
}

func receive(t testing.TB, fd int) (b []byte, fds []int, cred *unix.Ucred) {
	t.Helper()
	b = make([]byte, wire.MaxPacket)
	oob := make([]byte, 4096)
	n, oobn, _, _, err := unix.Recvmsg(fd, b, oob, unix.MSG_CMSG_CLOEXEC)
	for err == unix.EINTR {
		n, oobn, _, _, err = unix.Recvmsg(fd, b, oob, unix.MSG_CMSG_CLOEXEC)
	}
	if err != nil {
		t.Fatalf("receive: %v", err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil {
		t.Fatal(err)
	}
	for i := range messages {
		if c, err := unix.ParseUnixCredentials(&messages[i]); err == nil {
			cred = c
		}
		if list, err := unix.ParseUnixRights(&messages[i]); err == nil {
			fds = append(fds, list...)
		}
	}
	for _, fd := range fds {
		t.Cleanup(func() { unix.Close(fd) })
	}
	return b[:n], fds, cred
}

// requireBwrap skips where there is no bubblewrap, unless SANDBOX_TESTS=1
// says that there must be.
func requireBwrap(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("bwrap"); err != nil {
		if os.Getenv("SANDBOX_TESTS") == "1" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// lines is output as a set of lines by their first word.
func lines(out string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(line, ":")
		m[key] = strings.TrimSpace(value)
	}
	return m
}
