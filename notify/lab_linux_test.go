package notify_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"pinfold/event"
	"pinfold/notify"
	"pinfold/stub/seccomp"
)

// The test binary is also what runs inside: first it makes the boundary, as
// the stub does, then it becomes the script that it is named.
const (
	stageVariable = "PINFOLD_NOTIFY_STAGE"
	stageEnter    = "enter"
	stageScript   = "script"
)

func TestMain(m *testing.M) {
	switch os.Getenv(stageVariable) {
	case stageEnter:
		fmt.Println(enter())
		os.Exit(1)
	case stageScript:
		os.Exit(play(os.Args[1], os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

// enter is run in a new user and network namespace: it opens what the engine
// needs, loads the filter, hands it out and becomes the script.
func enter() error {
	runtime.LockOSThread()
	if err := loopbackUp(); err != nil {
		return err
	}
	diag, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	program, err := seccomp.Program(runtime.GOARCH, seccomp.Notify)
	if err != nil {
		return err
	}
	fprog := unix.SockFprog{Len: uint16(len(program) / 8), Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0]))}
	flags := uintptr(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
	fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&fprog)))
	if errno == unix.EINVAL { // before Linux 5.19, as the stub does
		flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER
		fd, _, errno = unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&fprog)))
	}
	if errno != 0 {
		return errno
	}
	if err := unix.Sendmsg(3, []byte{0}, unix.UnixRights(diag, int(fd)), nil, 0); err != nil {
		return err
	}
	if _, err := unix.Read(3, make([]byte, 1)); err != nil {
		return err
	}
	unix.CloseOnExec(3)
	unix.CloseOnExec(int(fd))
	if err := os.Setenv(stageVariable, stageScript); err != nil {
		return err
	}
	return unix.Exec("/proc/self/exe", os.Args, os.Environ())
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr)
}

// sandbox is one script under an engine.
type sandbox struct {
	o      notify.Options
	events recorder
	extra  []*os.File // descriptors from 4 on
	dir    string
	ready  func() // called once the engine is made, before the script starts
	cmd    *exec.Cmd
	engine *notify.Engine
	out    bytes.Buffer
	ran    chan error
}

func newSandbox(t testing.TB) *sandbox {
	t.Helper()
	// The socket's path must fit into an address, which t.TempDir's may not.
	dir, err := os.MkdirTemp("", "notify")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	dir, err = filepath.EvalSymlinks(dir)
	must(t, err)
	return &sandbox{dir: dir}
}

// start runs a script; its arguments are for it to understand.
func (s *sandbox) start(t testing.TB, script string, args ...string) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	ours, theirs := pair[0], os.NewFile(uintptr(pair[1]), "theirs")
	defer unix.Close(ours)
	exe, err := os.Executable()
	must(t, err)
	s.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), exe, append([]string{script}, args...)...)
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.dir, &s.out, &s.out
	// The race detector would have each script wait a second at its end.
	s.cmd.Env = append(os.Environ(), stageVariable+"="+stageEnter, "GORACE=atexit_sleep_ms=0")
	s.cmd.ExtraFiles = append([]*os.File{theirs}, s.extra...)
	s.cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER | unix.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_NET_ADMIN, unix.CAP_NET_BIND_SERVICE},
		Pdeathsig:   unix.SIGKILL,
	}
	must(t, s.cmd.Start())
	theirs.Close()
	fds := receiveFDs(t, ours, &s.out)
	s.o.Diag, s.o.Listener, s.o.Witness, s.o.Events, s.o.Run = fds[0], fds[1], -1, &s.events, "run"
	s.engine, err = notify.New(s.o)
	must(t, err)
	if s.ready != nil {
		s.ready()
	}
	s.ran = make(chan error, 1)
	go func() { s.ran <- s.engine.Run() }()
	_, err = unix.Write(ours, []byte{1})
	must(t, err)
}

// finish waits for the script and ends the engine.
func (s *sandbox) finish(t testing.TB) string {
	t.Helper()
	err := s.cmd.Wait()
	s.engine.Close()
	if rerr := <-s.ran; rerr != nil {
		t.Errorf("the engine ended with %v", rerr)
	}
	if err != nil {
		t.Fatalf("the script: %v: %s", err, s.out.String())
	}
	return s.out.String()
}

func (s *sandbox) run(t testing.TB, script string, args ...string) string {
	t.Helper()
	s.start(t, script, args...)
	return s.finish(t)
}

func receiveFDs(t testing.TB, from int, out *bytes.Buffer) []int {
	t.Helper()
	oob := make([]byte, unix.CmsgSpace(8))
	_, n, _, _, err := unix.Recvmsg(from, make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
	must(t, err)
	list, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(list) != 1 {
		t.Fatalf("no descriptors: %v: %s", err, out.String())
	}
	fds, err := unix.ParseUnixRights(&list[0])
	must(t, err)
	return fds
}

// recorder keeps events.
type recorder struct {
	mu   sync.Mutex
	list []event.Event
}

func (r *recorder) Emit(e event.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, e)
}

func (r *recorder) events() []event.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}

// service is a unix socket of the host that counts who connects.
type service struct {
	path string
	l    *net.UnixListener
	mu   sync.Mutex
	n    int
	done chan struct{}
}

func serve(t testing.TB, path string) *service {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	s := &service{path: path, l: l, done: make(chan struct{})}
	go func() {
		defer close(s.done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.mu.Lock()
			s.n++
			s.mu.Unlock()
			_, _ = c.Write([]byte("service"))
			c.Close()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-s.done
	})
	return s
}

func (s *service) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.n
}

func (s *service) listed(t testing.TB) notify.Socket {
	t.Helper()
	var st unix.Stat_t
	must(t, unix.Stat(s.path, &st))
	return notify.Socket{Path: s.path, Dev: st.Dev, Ino: st.Ino, Rule: s.path}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// results are a script's lines of "name: outcome".
func results(out string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(out) {
		if name, outcome, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			m[name] = outcome
		}
	}
	return m
}

// eventually waits for what nothing tells about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
		<-time.After(10 * time.Millisecond)
	}
}

func errnoName(err error) string {
	if err == nil {
		return "connected"
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		return unix.ErrnoName(errno)
	}
	return err.Error()
}
