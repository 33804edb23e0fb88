package bwrap

import (
	"os"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// lastJobSignal is the one of SIGTSTP and SIGCONT that this process took last,
// or zero. os/signal reports signals that wait in the order of their numbers,
// and so a SIGCONT before the SIGTSTP that it ended: by its reports alone, a
// process that takes a moment to stop might do so after it was continued, for
// good.
var lastJobSignal atomic.Int32 //nolint:gochecknoglobals // a signal handler writes it

// goHandler is the runtime's own signal handler.
var goHandler atomic.Uintptr //nolint:gochecknoglobals // a signal handler reads it

// onJobSignal is the handler of both, in assembly: it notes the signal in
// lastJobSignal and goes on as the runtime's.
//
//lint:ignore U1000 the assembly takes its address
func onJobSignal()

// jobHandler is its address.
func jobHandler() uintptr

func lastTaken() unix.Signal { return unix.Signal(lastJobSignal.Load()) }

// noteOrder has SIGTSTP and SIGCONT noted as they come, from when [signal.Notify]
// was called for them, which the runtime does with its handler once and for
// all.
func noteOrder() {
	for _, sig := range []unix.Signal{unix.SIGTSTP, unix.SIGCONT} {
		var a sigaction
		if rtSigaction(sig, nil, &a) != nil || a.handler <= sigIgnore || a.handler == jobHandler() {
			continue
		}
		goHandler.Store(a.handler) // the same for every signal
		a.handler = jobHandler()
		_ = rtSigaction(sig, &a, nil) // it was fine a moment ago
	}
}

// stopSignals is SIGTSTP, unless the caller ignores it: then it stays ignored,
// here as in the others of the process group.
func stopSignals() []unix.Signal {
	var a sigaction
	if rtSigaction(unix.SIGTSTP, nil, &a) == nil && a.handler == sigIgnore {
		return nil
	}
	return []unix.Signal{unix.SIGTSTP}
}

// stopSelf stops this process with SIGTSTP's default action, which the kernel
// skips in an orphaned process group: nobody could continue it. The signal to
// this very thread makes sure that nothing runs on before the stop. A whole
// group is stopped after Ctrl-Z in the inner terminal, as the outer one would
// have done. Otherwise the stop is the one that this process was told, and
// nothing if it was continued since: a shell whose job is the parent of this
// process sees that stop at once, and may continue the group long before it is
// this one's turn.
//
// So the stop waits in this thread, blocked, while it is looked whether a
// SIGCONT was taken: one that is sent later takes the stop away, by the
// kernel's hand (signal(7), "Stop and continue").
//
// The SIGCONT that ends the stop isn't delivered, since the caller sees by the
// return that it came. By way of a handler it would come some milliseconds
// later, and continue a command that was stopped again meanwhile.
func stopSelf(group bool) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var stop, cont sigaction
	if rtSigaction(unix.SIGTSTP, nil, &stop) != nil || stop.handler == sigIgnore ||
		rtSigaction(unix.SIGCONT, nil, &cont) != nil {
		return
	}
	block, mask := sigset(unix.SIGTSTP, unix.SIGCONT), unix.Sigset_t{}
	if unix.PthreadSigmask(unix.SIG_BLOCK, &block, &mask) != nil {
		return
	}
	if pend(group) {
		// signal.Reset leaves Go's handler in place for these.
		_ = rtSigaction(unix.SIGCONT, &sigaction{handler: sigDefault}, nil)
		if group {
			_ = unix.Kill(0, unix.SIGTSTP)
		}
		_ = rtSigaction(unix.SIGTSTP, &sigaction{handler: sigDefault}, nil)
		_ = unix.PthreadSigmask(unix.SIG_SETMASK, &mask, nil) // it stops here
		lastJobSignal.Store(int32(unix.SIGCONT))
	}
	_ = rtSigaction(unix.SIGTSTP, &stop, nil)
	_ = rtSigaction(unix.SIGCONT, &cont, nil)
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &mask, nil)
}

// pend has a stop wait in this thread, which blocks SIGTSTP and SIGCONT, and
// reports whether it is still called for. Of a whole group's the one that
// comes back from the group is ignored: one stop is enough here.
func pend(group bool) bool {
	if group {
		_ = rtSigaction(unix.SIGTSTP, &sigaction{handler: sigIgnore}, nil)
	}
	// The stop would take away a SIGCONT that no thread has got round to.
	if takePending(unix.SIGCONT) {
		lastJobSignal.Store(int32(unix.SIGCONT))
	}
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGTSTP)
	if group || lastTaken() != unix.SIGCONT {
		return true
	}
	takePending(unix.SIGTSTP)
	return false
}

// takePending takes a blocked signal that waits, sigtimedwait(2), and reports
// whether there was one.
func takePending(sig unix.Signal) bool {
	set, now := sigset(sig), unix.Timespec{}
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGTIMEDWAIT, uintptr(unsafe.Pointer(&set)), 0,
		uintptr(unsafe.Pointer(&now)), unsafe.Sizeof(sigaction{}.mask), 0, 0)
	return errno == 0
}

func sigset(sigs ...unix.Signal) (set unix.Sigset_t) {
	for _, sig := range sigs {
		set.Val[0] |= 1 << (sig - 1)
	}
	return set
}

// sigaction is the kernel's struct, rt_sigaction(2), the same on amd64 and
// arm64.
type sigaction struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

// The dispositions without a handler, signal(7).
const (
	sigDefault = 0
	sigIgnore  = 1
)

func rtSigaction(sig unix.Signal, action, old *sigaction) error {
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig),
		uintptr(unsafe.Pointer(action)), uintptr(unsafe.Pointer(old)), unsafe.Sizeof(action.mask), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
