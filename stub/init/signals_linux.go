package main

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// sigaction is the kernel's struct, rt_sigaction(2). It is the same on amd64
// and arm64.
type sigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

// The dispositions, signal(7), and the number of the last signal.
const (
	sigDefault = 0
	sigIgnore  = 1
	sigLast    = 64
)

// resetSignals gives every signal its default, less the ones the caller had
// ignored (nohup's SIGHUP), and an empty mask. execve(2) itself resets
// handlers alone: what is ignored or blocked stays so, and this program's
// runtime and its parents have had their own ideas about both.
func resetSignals(ignore uint64) *wire.Failure {
	for n := uintptr(1); n <= sigLast; n++ {
		if n == uintptr(unix.SIGKILL) || n == uintptr(unix.SIGSTOP) {
			continue
		}
		action := sigaction{handler: sigDefault}
		if ignore&(1<<(n-1)) != 0 {
			action.handler = sigIgnore
		}
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, n, uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0)
		if errno != 0 {
			return failed(wire.StepSignals, "", "cannot reset signal "+itoa(uint64(n)), errno)
		}
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &unix.Sigset_t{}, nil); err != nil {
		return failed(wire.StepSignals, "", "cannot unblock signals", err)
	}
	return nil
}

// shareSignals leaves half of the signals that may wait to pid 1: what waits is
// counted for the user, and compared with the receiver's own limit.
func shareSignals() *wire.Failure {
	var l unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_SIGPENDING, &l)
	if err == nil && l.Max != unix.RLIM_INFINITY {
		l.Max /= 2
		l.Cur = min(l.Cur, l.Max)
		err = unix.Setrlimit(unix.RLIMIT_SIGPENDING, &l)
	}
	if err != nil {
		return failed(wire.StepLimit, "", "cannot bound the signals that wait", err)
	}
	return nil
}
