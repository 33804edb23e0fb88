package bwrap

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/policy"
)

// monitor is the bubblewrap process that stays on the host's side: its parent
// is a thread of this process, its child is the sandbox's pid 1.
type monitor struct {
	pid   int
	pidfd int
	// gone is closed once it has ended and was reaped; status is valid then.
	// Until then the pid can't be another process's.
	gone   chan struct{}
	status unix.WaitStatus
	// settled: something came out of the sandbox, so bubblewrap's two sides
	// no longer wait for each other.
	settled bool
	rusage  unix.Rusage // of it and all that was below
}

// spawn is what to run.
type spawn struct {
	path string
	argv []string
	fds  []uintptr
}

// start runs bubblewrap from a thread of its own that lives until it has
// ended. --die-with-parent is PR_SET_PDEATHSIG, and the parent there is the
// thread that forked (prctl(2)): a thread that Go retires would take a healthy
// sandbox along. The thread joins a new session keyring first, so the sandbox
// has that one and not the operator's.
func start(s spawn) (*monitor, error) {
	type result struct {
		m   *monitor
		err error
	}
	started := make(chan result, 1)
	go func() {
		// Never unlocked: Go ends the thread with the goroutine, and nothing
		// else gets to run with this keyring.
		runtime.LockOSThread()
		pid, pidfd, err := fork(s)
		if err != nil {
			started <- result{err: err}
			return
		}
		m := &monitor{pid: pid, pidfd: pidfd, gone: make(chan struct{})}
		started <- result{m: m}
		m.status = reap(pid, &m.rusage)
		close(m.gone)
	}()
	r := <-started
	return r.m, r.err
}

// fork starts bubblewrap in a session of its own: what a terminal sends to
// this process's group must not reach it. Its environment is empty, so no
// loader variable does either. It is called with raw descriptors since
// [os.File.Fd] would switch the caller's streams to blocking mode.
func fork(s spawn) (pid, pidfd int, err error) {
	if err := joinKeyring(); err != nil {
		return 0, -1, err
	}
	restore, err := fewerSignals()
	if err != nil {
		return 0, -1, err
	}
	pidfd = -1
	pid, _, err = syscall.StartProcess(s.path, s.argv, &syscall.ProcAttr{
		Dir:   "/",
		Env:   []string{},
		Files: s.fds,
		Sys:   &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd},
	})
	restore()
	if err != nil {
		return 0, -1, &policy.Refusal{
			Reason: policy.Unavailable, Code: "bwrap_failed", Subject: s.path,
			Why: fmt.Sprintf("cannot execute %q: %v", s.path, err),
			Fix: "install bubblewrap, or see what pinfold doctor says", Err: err,
		}
	}
	return pid, pidfd, nil
}

// keyringWait is how long a user's quota of keys may stay used up. The kernel
// takes back what ended sandboxes had a moment later.
const keyringWait = 2 * time.Second

// joinKeyring gives the calling thread a session keyring that is empty. A
// kernel without keyrings has none to hide; where a filter forbids keyctl(2)
// altogether (in most containers), it does so for what runs below as well.
func joinKeyring() error {
	var err unix.Errno
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(keyringWait); ; <-tick.C {
		// No name at all: with one, even "", an existing keyring could be joined.
		_, _, err = unix.Syscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0)
		switch {
		case err == 0 || err == unix.ENOSYS || err == unix.EPERM:
			return nil
		case err == unix.EDQUOT && time.Now().Before(end):
			continue
		}
		break
	}
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "keyring_failed", Subject: "session keyring",
		Why: fmt.Sprintf("cannot make a session keyring for the sandbox: %v", err),
		Fix: "too many keyrings may be in use: see /proc/key-users and kernel.keys.maxkeys", Err: err,
	}
}

// reap waits for bubblewrap. It holds the thread, not just the goroutine.
//
// Somebody may kill it before it has let its child go, which then waits for it
// forever. That is of its process group, and while bubblewrap isn't reaped no
// other group can have the number.
func reap(pid int, used *unix.Rusage) unix.WaitStatus {
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	_ = unix.Kill(-pid, unix.SIGKILL)
	for {
		var ws unix.WaitStatus
		got, err := unix.Wait4(pid, &ws, 0, used)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || got != pid {
			// Somebody else in this process has reaped it (SIGCHLD ignored):
			// how it ended is lost, so say the worst.
			return unix.WaitStatus(unix.SIGKILL)
		}
		return ws
	}
}

// patience is how long bubblewrap may take to end by itself.
const patience = 2 * time.Second

// kill ends the sandbox at once, by its pid 1 when that is known. bubblewrap
// then ends by itself.
func (m *monitor) kill(initFD int) {
	if initFD >= 0 && unix.PidfdSendSignal(initFD, unix.SIGKILL, nil, 0) == nil {
		return
	}
	m.killBwrap()
}

func (m *monitor) killBwrap() {
	select {
	case <-m.gone:
	default:
		_ = unix.PidfdSendSignal(m.pidfd, unix.SIGKILL, nil, 0)
	}
}

// end sees bubblewrap off. Before the stub has said who it is, bubblewrap is
// left to fail by itself first, as it does when the stub ends: killed at the
// wrong moment it leaves a child behind that waits for it forever.
func (m *monitor) end(initFD int) {
	if initFD >= 0 {
		m.kill(initFD)
	}
	if !m.settled && m.within(patience) {
		return
	}
	for _, pid := range children(m.pid) {
		killChild(m.pid, pid)
	}
	if m.within(patience) {
		return
	}
	m.killBwrap()
	<-m.gone
}

func (m *monitor) within(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-m.gone:
		return true
	case <-timer.C:
		return false
	}
}

// children are a single-threaded process's, proc_pid_task(5).
func children(pid int) []int {
	b, err := os.ReadFile(procPath(pid, "task/"+strconv.Itoa(pid)+"/children"))
	if err != nil {
		return nil
	}
	var list []int
	for _, field := range strings.Fields(string(b)) {
		if n, err := strconv.Atoi(field); err == nil {
			list = append(list, n)
		}
	}
	return list
}

// killChild kills one process if it is still that parent's.
func killChild(parent, pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if p, err := readProc(pid); err == nil && p.ppid == parent {
		_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	}
}

// bwrapArgv is bubblewrap's command line. Everything else is in the file that
// --args names, so nothing of the policy shows in a process list.
func bwrapArgv(path, stub string, args int) []string {
	return []string{path, "--args", strconv.Itoa(args), "--", stub}
}

// rawFD is the descriptor to hand on. This process's own standard streams are
// left as they are: [os.File.Fd] would switch them to blocking mode for
// everybody who shares them. Other files are Go's, which makes its own pipes
// non-blocking, as few commands expect them.
func rawFD(f *os.File) (int, error) {
	fd := -1
	err := onFD(f, func(n int) error {
		fd = n
		return nil
	})
	if err != nil {
		return -1, fmt.Errorf("cannot use %q: %w", f.Name(), err)
	}
	if fd > 2 {
		fd = int(f.Fd())
	}
	return fd, nil
}

// onFD runs fn with a file's raw descriptor.
func onFD(f *os.File, fn func(fd int) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var ferr error
	err = c.Control(func(fd uintptr) { ferr = fn(int(fd)) })
	return errors.Join(err, ferr)
}
