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

// stopper stops this process. A shell whose job is the parent of this process
// sees that one's stop at once, and may continue the group before it is this
// one's turn; it has no reason to do so again. So a stop always waits in a
// thread that blocks it, from before the first one is told: the kernel takes it
// away with any SIGCONT (signal(7), "Stop and continue"), and what is left of
// it when this process is ready to stop is a stop that still holds.
type stopper struct {
	ask  chan func(mask *unix.Sigset_t)
	done <-chan struct{}
}

// newStopper has a stop wait until done.
func newStopper(done <-chan struct{}) *stopper {
	s := &stopper{ask: make(chan func(*unix.Sigset_t)), done: done}
	go onThread(s.run)
	s.again()
	return s
}

func (s *stopper) run(mask *unix.Sigset_t) {
	for {
		select {
		case do := <-s.ask:
			do(mask)
		case <-s.done:
			takePending(unix.SIGTSTP)
			return
		}
	}
}

func (s *stopper) do(f func(mask *unix.Sigset_t)) {
	over := make(chan struct{})
	select {
	case s.ask <- func(mask *unix.Sigset_t) { f(mask); close(over) }:
		<-over
	case <-s.done:
	}
}

// again is for a process that was continued: the next stop waits.
func (s *stopper) again() { s.do(func(*unix.Sigset_t) { pend() }) }

// stop stops this process, unless it was continued since it was told to. It
// returns when that is over, or at once in an orphaned process group, where
// the kernel skips SIGTSTP's default action: nobody could continue it.
func (s *stopper) stop() {
	s.do(func(mask *unix.Sigset_t) {
		if lastTaken() != unix.SIGCONT && isPending(unix.SIGTSTP) {
			stopNow(mask, false)
			pend()
		}
	})
}

// group stops this process with all others of its group.
func (s *stopper) group() {
	s.do(func(mask *unix.Sigset_t) {
		stopGroup(mask)
		pend()
	})
}

// stopGroup stops this process with all others of its group, as the outer
// terminal would have done, after Ctrl-Z in the inner one. It returns as stop
// does. Whoever sees the others stop and continues them continues this one,
// whose own stop waits by then. Call it by onThread.
func stopGroup(mask *unix.Sigset_t) {
	var stop sigaction
	if rtSigaction(unix.SIGTSTP, nil, &stop) != nil || stop.handler == sigIgnore {
		return
	}
	// What comes back from the group is ignored: one stop is enough.
	_ = rtSigaction(unix.SIGTSTP, &sigaction{handler: sigIgnore}, nil)
	pend()
	stopNow(mask, true)
	_ = rtSigaction(unix.SIGTSTP, &stop, nil)
}

// jobSignals are what a stop's thread blocks.
func jobSignals() unix.Sigset_t { return sigset(unix.SIGTSTP, unix.SIGCONT) }

// onThread runs do in a thread that blocks SIGTSTP and SIGCONT; mask is what
// it blocks otherwise.
func onThread(do func(mask *unix.Sigset_t)) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	block, mask := jobSignals(), unix.Sigset_t{}
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, &block, &mask) // fails for bad arguments only
	do(&mask)
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, &mask, nil)
}

// pend has a stop wait in this thread. It would take away a SIGCONT that no
// thread has got round to.
func pend() {
	if takePending(unix.SIGCONT) {
		lastJobSignal.Store(int32(unix.SIGCONT))
	}
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGTSTP)
}

// stopNow lets the stop come that waits in this thread, so that nothing runs
// on before it.
//
// The SIGCONT that ends it isn't delivered, since the caller sees by the return
// that it came. By way of a handler it would come some milliseconds later, and
// continue a command that was stopped again meanwhile.
func stopNow(mask *unix.Sigset_t, group bool) {
	var stop, cont sigaction
	// signal.Reset leaves Go's handler in place for these.
	if rtSigaction(unix.SIGCONT, &sigaction{handler: sigDefault}, &cont) != nil {
		return
	}
	if group {
		_ = unix.Kill(0, unix.SIGTSTP)
	}
	_ = rtSigaction(unix.SIGTSTP, &sigaction{handler: sigDefault}, &stop)
	_ = unix.PthreadSigmask(unix.SIG_SETMASK, mask, nil) // here
	block := jobSignals()
	_ = unix.PthreadSigmask(unix.SIG_BLOCK, &block, nil)
	lastJobSignal.Store(int32(unix.SIGCONT))
	_ = rtSigaction(unix.SIGTSTP, &stop, nil)
	_ = rtSigaction(unix.SIGCONT, &cont, nil)
}

// takePending takes a blocked signal that waits, sigtimedwait(2), and reports
// whether there was one.
func takePending(sig unix.Signal) bool {
	set, now := sigset(sig), unix.Timespec{}
	_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGTIMEDWAIT, uintptr(unsafe.Pointer(&set)), 0,
		uintptr(unsafe.Pointer(&now)), unsafe.Sizeof(sigaction{}.mask), 0, 0)
	return errno == 0
}

// isPending reports whether a blocked signal waits.
func isPending(sig unix.Signal) bool {
	var set unix.Sigset_t
	_, _, errno := unix.RawSyscall(unix.SYS_RT_SIGPENDING, uintptr(unsafe.Pointer(&set)), unsafe.Sizeof(sigaction{}.mask), 0)
	return errno == 0 && set.Val[0]&sigset(sig).Val[0] != 0
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
