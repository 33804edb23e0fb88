package bwrap

import (
	"fmt"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// forkCalls are the system calls that wait for a child to execute something.
var forkCalls = map[string]bool{ //nolint:gochecknoglobals // a table
	strconv.Itoa(unix.SYS_CLONE): true, strconv.Itoa(unix.SYS_CLONE3): true, vforkCall: true,
}

// call is one system call to be made inside.
type call struct {
	nr  uintptr
	arg [6]uintptr
	// last: the first argument is what the last call that keeps it returned.
	last, keep bool
	// arms: once it has succeeded, the calls with undoes set are made even after
	// another one has failed, and those with onlyUndoes then alone.
	arms, undoes, onlyUndoes bool
}

// calls are the system calls of a process that joins the sandbox's mount
// namespace, in order; the first that fails ends it.
//
// Joining needs a process with a single thread (setns(2)), which a Go program
// isn't after its first instant. So it is forked, and what runs in the child
// is this list and nothing of Go: no other thread, no stack to grow, no
// garbage to collect.
type calls struct {
	list []*call
	keep []*byte // what the arguments point to
}

func (c *calls) add(nr uintptr, arg ...uintptr) *call {
	k := &call{nr: nr}
	copy(k.arg[:], arg)
	c.list = append(c.list, k)
	return k
}

// text is a string for an argument. It stays where it is as long as the list.
func (c *calls) text(s string) uintptr {
	b := append([]byte(s), 0)
	c.keep = append(c.keep, &b[0])
	return uintptr(unsafe.Pointer(&b[0]))
}

// run makes the calls, and answers the error of the first that fails.
func (c *calls) run() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	restore, err := blockSignals()
	if err != nil {
		return err
	}
	pid, errno := forkCallsChild(c.list)
	err = restore()
	runtime.KeepAlive(c)
	if errno != 0 {
		return fmt.Errorf("cannot fork: %w", errno)
	}
	ws := reap(int(pid), nil)
	switch {
	case err != nil:
		return err
	case !ws.Exited():
		return fmt.Errorf("the helper %s", how(ws))
	case ws.ExitStatus() != 0:
		return unix.Errno(ws.ExitStatus())
	}
	return nil
}

// blockSignals keeps all signals from the calling thread, and so from a child
// that it forks: a handler is Go, and must not run there.
func blockSignals() (restore func() error, err error) {
	var all, before unix.Sigset_t
	for i := range all.Val {
		all.Val[i] = ^all.Val[i]
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &all, &before); err != nil {
		return nil, err
	}
	return func() error { return unix.PthreadSigmask(unix.SIG_SETMASK, &before, nil) }, nil
}

// forkCallsChild forks; the child makes the calls and exits with the first
// error number.
//
//go:norace
//go:nosplit
func forkCallsChild(list []*call) (pid uintptr, errno syscall.Errno) {
	pid, _, errno = syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if pid != 0 || errno != 0 {
		return pid, errno
	}
	var last uintptr
	var failed syscall.Errno
	armed := false
	for _, c := range list {
		if failed != 0 && !(armed && (c.undoes || c.onlyUndoes)) || failed == 0 && c.onlyUndoes {
			continue
		}
		first := c.arg[0]
		if c.last {
			first = last
		}
		r, _, e := syscall.RawSyscall6(c.nr, first, c.arg[1], c.arg[2], c.arg[3], c.arg[4], c.arg[5])
		if e != 0 && failed == 0 {
			failed = e
		}
		if c.keep {
			last = r
		}
		armed = armed || c.arms && e == 0
	}
	for {
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, uintptr(failed), 0, 0)
	}
}
