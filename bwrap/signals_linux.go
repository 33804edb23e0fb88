package bwrap

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"

	"pinfold/supervise"
)

// ignoredSignals are what this process ignores, and so the command: bit n-1
// is signal n. Go keeps an inherited SIG_IGN for SIGHUP and SIGINT only; that
// another one was ignored can't be told any more.
func ignoredSignals() (uint64, error) {
	st, err := readStatus(os.Getpid())
	return st.ignored, err
}

// Signal sends a signal to the command itself. The error is
// [os.ErrProcessDone] once it has ended.
func (p *Process) Signal(sig unix.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.commandFD < 0 {
		return os.ErrProcessDone
	}
	err := unix.PidfdSendSignal(p.commandFD, sig, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	if err != nil {
		return fmt.Errorf("cannot send %s to the command: %w", unix.SignalName(sig), err)
	}
	return nil
}

// passedOn notes a signal that asks the command to end, which isn't the
// command's own doing if it does.
func (p *Process) passedOn(sig unix.Signal) {
	if !supervise.AsksToEnd(sig) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.passed = sig
}

// forward is what becomes of a signal that this process got.
func (p *Process) forward(sig unix.Signal) {
	switch {
	case sig == unix.SIGTSTP:
		p.suspend()
	case sig == unix.SIGCONT:
		p.continued()
	case sig == unix.SIGWINCH && p.relay.hasInput():
		p.relay.resize() // the kernel tells the command
	default:
		p.passedOn(sig)
		_ = p.Signal(sig) // the command may just have ended
	}
}

// suspend stops the command's process group as a terminal would, then this
// process. With a terminal the second half happens when the stub reports that
// the command has stopped, since it may catch the signal and go on; unless it
// stands already, for wanting its terminal, and would report nothing.
func (p *Process) suspend() {
	p.jobs.Lock()
	defer p.jobs.Unlock()
	if p.relay.hasInput() && !p.isStopped() {
		p.stopping.Store(true)
		p.signalGroup(unix.SIGTSTP)
		return
	}
	p.signalGroup(unix.SIGTSTP)
	p.relay.leave()
	stopSelf(false)
	p.resume()
}

// isStopped reports whether the command stands.
func (p *Process) isStopped() bool {
	c, err := readProc(p.commandPID)
	return err == nil && c.state == 'T' && p.Signal(0) == nil
}

// stopped hands the terminal back to whoever started this process, and stops
// with the rest of its group, which a terminal that stopped this process has
// stopped already. It returns when the group is continued, or at once where no
// shell would continue it (an orphaned group).
func (p *Process) stopped() {
	p.jobs.Lock()
	defer p.jobs.Unlock()
	if !p.isStopped() {
		return // it has been continued since
	}
	if p.forwarder != nil {
		p.relay.settle()
		p.relay.leave()
		stopSelf(!p.stopping.Swap(false))
	}
	p.resume()
}

// wanted gives the terminal to a command that uses it for the first time.
func (p *Process) wanted() {
	p.jobs.Lock()
	defer p.jobs.Unlock()
	p.relay.want()
	p.resume()
}

// continued is for a supervisor that somebody else had stopped, or that is told
// to continue a command that stands.
func (p *Process) continued() {
	p.jobs.Lock()
	defer p.jobs.Unlock()
	p.resume()
}

// resume takes the terminal again and continues the command.
func (p *Process) resume() {
	p.relay.comeBack()
	p.relay.resize()
	p.signalGroup(unix.SIGCONT)
}

// signalGroup sends a signal to the command's process group. The command is
// alive or not yet reaped while its pidfd answers, so its group is its own; one
// that has joined bubblewrap's group gets the signal alone.
func (p *Process) signalGroup(sig unix.Signal) {
	if p.Signal(0) != nil {
		return
	}
	pgid, err := unix.Getpgid(p.commandPID)
	if err != nil || pgid <= 1 || pgid == p.initPgid() || pgid == unix.Getpgrp() {
		_ = p.Signal(sig) // it may just have ended
		return
	}
	_ = unix.Kill(-pgid, sig)
}

func (p *Process) initPgid() int {
	pgid, err := unix.Getpgid(p.family.init.pid)
	if err != nil {
		return -1
	}
	return pgid
}

// stopSelf stops this process with SIGTSTP's default action, which the kernel
// skips in an orphaned process group: nobody could continue it. The signal to
// this very thread makes sure that nothing runs on before the stop. A whole
// group is stopped after Ctrl-Z in the inner terminal, as the outer one would
// have done.
//
// The SIGCONT that ends the stop isn't delivered, since the caller sees by the
// return that it came. By way of a handler it would come some milliseconds
// later, and continue a command that was stopped again meanwhile.
func stopSelf(group bool) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// signal.Reset leaves Go's handler in place for these.
	var stop, cont sigaction
	if rtSigaction(unix.SIGTSTP, &sigaction{handler: sigIgnore}, &stop) != nil ||
		rtSigaction(unix.SIGCONT, &sigaction{handler: sigDefault}, &cont) != nil {
		return
	}
	if group {
		_ = unix.Kill(0, unix.SIGTSTP) // the others: one stop is enough here
	}
	_ = rtSigaction(unix.SIGTSTP, &sigaction{handler: sigDefault}, nil)
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGTSTP)
	_ = rtSigaction(unix.SIGTSTP, &stop, nil)
	_ = rtSigaction(unix.SIGCONT, &cont, nil)
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
