package bwrap

import (
	"errors"
	"fmt"
	"os"

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
	p.draining.Signal(sig)
	p.hurry.Do(func() { close(p.hurried) })
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

// told is what this process was told.
type told struct {
	stopper   *stopper // nil: signals aren't taken
	stop      bool     // to stop, and so was the command
	overtaken bool     // both were continued, but the command's stop may be reported yet
}

// suspend stops the command's process group as a terminal would, then this
// process. With a terminal the second half happens when the stub reports that
// the command has stopped, since it may catch the signal and go on; unless it
// stands already, for wanting its terminal, and would report nothing. A stop
// that a continuation has overtaken is over.
func (p *Process) suspend() {
	p.jobs.Lock()
	defer p.jobs.Unlock()
	if lastTaken() == unix.SIGCONT {
		return
	}
	p.told.stop, p.told.overtaken = true, false
	waits := p.relay.hasInput() && !p.isStopped()
	p.signalGroup(unix.SIGTSTP)
	if !waits {
		p.relay.leave()
		p.stopSelf()
		p.resume()
	}
}

// isStopped reports whether the command stands.
func (p *Process) isStopped() bool {
	c, err := readProc(p.commandPID)
	return err == nil && c.state == 'T' && p.Signal(0) == nil
}

// stopped hands the terminal back to whoever started this process, and stops
// with the rest of its group, which a terminal that stopped this process has
// stopped already. It returns when the group is continued, or at once where no
// shell would continue it (an orphaned group). A report that was overtaken may
// find the command standing for wanting its terminal, which is reported next.
func (p *Process) stopped() {
	p.jobs.Lock()
	defer p.jobs.Unlock()
	if !p.isStopped() {
		return // it has been continued since
	}
	late := p.told.overtaken && p.relay.waits()
	p.told.overtaken = false
	if p.told.stopper != nil && !late {
		p.relay.settle()
		p.relay.leave()
		p.stopSelf()
	}
	p.resume()
}

// wanted gives the terminal to a command that uses it for the first time. If
// this process was told to stop meanwhile it does so first: the command, which
// stands for the other reason, will not report that it took that signal.
func (p *Process) wanted() {
	p.jobs.Lock()
	defer p.jobs.Unlock()
	p.relay.want()
	if p.told.stopper != nil && lastTaken() == unix.SIGTSTP {
		p.told.stop = true
		p.relay.leave()
		p.stopSelf()
	}
	p.resume()
}

// stopSelf stops this process as it was told, or else the whole group.
func (p *Process) stopSelf() {
	if p.told.stop {
		p.told.stop = false
		p.told.stopper.stop()
		return
	}
	p.told.stopper.group()
}

// continued is for a supervisor that somebody else had stopped, or that is told
// to continue a command that stands, or hasn't stopped yet.
func (p *Process) continued() {
	p.jobs.Lock()
	defer p.jobs.Unlock()
	if p.told.stop {
		p.told.stop, p.told.overtaken = false, true
	}
	p.told.stopper.again()
	p.resume()
}

// resume takes the terminal again and continues the command.
func (p *Process) resume() {
	p.relay.comeBack(func() { p.signalGroup(unix.SIGCONT) })
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
