package seatbelt

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/event"
	"pinfold/plan"
	"pinfold/policy"
	"pinfold/supervise"
)

// Process is a command that runs inside its boundary.
type Process struct {
	launch *Launch
	o      StartOptions

	cmd       *exec.Cmd
	root      plan.Process
	gone      chan struct{} // the command has ended and was reaped
	forwarder *supervise.Forwarder
	relay     *relay
	egress    Egress
	listener  net.Listener
	held      *os.File // the same port of ::1
	serving   sync.WaitGroup
	draining  supervise.Draining
	own       []*os.File
	watcher   *watcher
	tag       string // of the run's refusals in the log
	end       context.CancelFunc

	done chan struct{}
	exit Exit
	err  error

	mu     sync.Mutex
	reaped bool
	reason Reason // why this side ended the run, if it did
	stop   string // what that had to deliver
}

func newProcess(l *Launch, o StartOptions, end context.CancelFunc) *Process {
	return &Process{launch: l, o: o, gone: make(chan struct{}), done: make(chan struct{}), end: end, tag: tagPrefix + rand.Text()}
}

// Pid is the command's process.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Done is closed when the command has ended and everything is cleaned up.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end. The error is about cleaning up, and doesn't change
// how the command ended.
func (p *Process) Wait() (Exit, error) {
	<-p.done
	return p.exit, p.err
}

// Stop ends the run: SIGTERM to the command, and after the grace SIGKILL to
// all that is known of the run. It returns when that is over.
func (p *Process) Stop(grace time.Duration) error {
	p.terminate(Interrupted, grace)
	_, err := p.Wait()
	return err
}

// reap waits for the command. Signals and the reaping exclude each other, so
// that no signal reaches a process that has taken over the pid.
func (p *Process) reap() {
	waitExited(p.cmd.Process.Pid)
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.cmd.Wait() // how it ended is in ProcessState
	p.reaped = true
	close(p.gone)
}

// Signal sends a signal to the command itself. The error is
// [os.ErrProcessDone] once it has ended.
func (p *Process) Signal(sig unix.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return os.ErrProcessDone
	}
	if err := unix.Kill(p.cmd.Process.Pid, sig); err != nil {
		return fmt.Errorf("cannot send %s to the command: %w", unix.SignalName(sig), err)
	}
	return nil
}

// signalGroup sends a signal to the command's process group, which is its own
// for as long as it isn't reaped.
func (p *Process) signalGroup(sig unix.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.reaped {
		_ = unix.Kill(-p.cmd.Process.Pid, sig)
	}
}

// endedItself reports whether this side had no part in the end.
func (p *Process) endedItself() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reason == ""
}

// ending notes why this side ends the run. The reason is the first one given.
func (p *Process) ending(r Reason, stop string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reason == "" {
		p.reason = r
	}
	p.stop = stop
}

// terminate asks the command to end, and after the grace makes it. A stopped
// command is continued, or it couldn't hear.
func (p *Process) terminate(r Reason, grace time.Duration) {
	p.ending(r, "term")
	_ = p.Signal(unix.SIGTERM)
	p.signalGroup(unix.SIGCONT)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.gone:
	case <-timer.C:
		p.ending(r, "kill")
		p.killTree()
	}
}

// supervise watches a running command to its end.
func (p *Process) supervise(ctx context.Context) {
	defer p.end()
	select {
	case <-p.gone:
	case <-ctx.Done():
		r := Interrupted
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			r = Timeout
		}
		p.terminate(r, p.o.grace())
		<-p.gone
	}
	p.killTree() // what the command has left behind
	p.err = p.cleanUp()
	p.exit = p.stoppedByOthers(p.result())
	p.err = errors.Join(p.err, writeExit(p.o.Record, p.exit))
	close(p.done)
}

// cleanUp ends everything that served the command.
func (p *Process) cleanUp() error {
	p.watcher.stop()
	p.relay.finish()
	if p.endedItself() {
		p.draining.Run(p.egress, nil)
	}
	p.forwarder.Stop()
	var err error
	if p.egress != nil {
		err = p.egress.Close()
	}
	if p.listener != nil {
		p.listener.Close() // the server may have closed it
	}
	if p.held != nil {
		p.held.Close()
	}
	p.serving.Wait()
	if err != nil {
		return fmt.Errorf("cannot end the proxy: %w", err)
	}
	return nil
}

// serveOne runs the proxy. If it ends before the run does nothing leaves any
// more: that is no hole, but worth a line.
func (p *Process) serveOne(ctx context.Context, l net.Listener) {
	err := p.egress.Serve(ctx, l)
	if err == nil || errors.Is(err, net.ErrClosed) {
		return
	}
	p.notice(fmt.Sprintf("the proxy has ended: %v", err))
	if p.o.Events != nil {
		p.o.Events.Emit(event.Event{
			Time: time.Now(), Run: p.o.Run, Kind: event.Network, Action: event.Noticed,
			Target: l.Addr().String(), Reason: "proxy_ended",
		})
	}
}

func (p *Process) notice(s string) {
	if p.o.Notice != nil {
		p.o.Notice(s)
	}
}

// result reads how the command ended.
func (p *Process) result() Exit {
	e := Exit{Code: p.cmd.ProcessState.ExitCode(), Reason: Exited}
	if ws := waitStatus(p.cmd.ProcessState); ws.Signaled() {
		e = Exit{Code: CodeSignal + int(ws.Signal()), Signal: ws.Signal(), Reason: Signaled}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	e.Stop = p.stop
	switch p.reason {
	case "":
	case Timeout:
		e.Code, e.Reason = CodeTimeout, Timeout
	default:
		e.Reason = p.reason
	}
	return e
}

// Usage is what the command cost: what the kernel counted for it and for the
// children that it waited for.
func (p *Process) Usage() plan.Usage {
	<-p.gone
	u := plan.Usage{Source: "rusage"}
	s := p.cmd.ProcessState
	u.CPUMS = float64((s.UserTime() + s.SystemTime()).Microseconds()) / 1000
	if r, ok := s.SysUsage().(*syscall.Rusage); ok {
		u.PeakMemory = r.Maxrss * maxrssUnit
	}
	return u
}

// stoppedByOthers is an end that somebody else has asked for, who noted it in
// the record's journal first.
func (p *Process) stoppedByOthers(e Exit) Exit {
	what, err := p.o.Record.Stop()
	if err != nil {
		p.notice(err.Error())
		return e
	}
	if what != "" && e.Stop == "" {
		e.Reason, e.Stop = Interrupted, what
	}
	return e
}

func waitStatus(s *os.ProcessState) syscall.WaitStatus {
	ws, ok := s.Sys().(syscall.WaitStatus)
	if !ok {
		return 0
	}
	return ws
}

func writeExit(rec *plan.Record, e Exit) error {
	return rec.WriteExit(plan.Exit{Time: time.Now(), Code: e.Code, Reason: string(e.Reason), Signal: int(e.Signal), Stop: e.Stop})
}

// asExit is how a launch that failed counts.
func asExit(err error) Exit {
	if e, ok := errors.AsType[*NotRunError](err); ok {
		return e.Exit
	}
	if errors.Is(err, policy.ErrDenied) {
		return Exit{Code: CodeRefused, Reason: Refused}
	}
	return Exit{Code: CodeRefused, Reason: Unavailable}
}

// interrupted is a launch that a signal or the caller ended before the
// command ran.
func interrupted(sig unix.Signal, cause error) *NotRunError {
	e := &NotRunError{Exit: Exit{Code: CodeRefused, Reason: Interrupted}, Err: cause}
	if sig != 0 {
		e.Exit = Exit{Code: CodeSignal + int(sig), Signal: sig, Reason: Interrupted}
		e.Why = fmt.Sprintf("cannot run the command: %s came first", unix.SignalName(sig))
		return e
	}
	e.Why = fmt.Sprintf("cannot run the command: %v", cause)
	return e
}

// asLaunchError makes a refusal of whatever isn't one yet: this machine could
// not do it.
func asLaunchError(launching, run context.Context, err error) error {
	if e, ok := errors.AsType[*NotRunError](context.Cause(launching)); ok && launching.Err() != nil {
		return e
	}
	if run.Err() != nil {
		e := interrupted(0, context.Cause(run))
		if errors.Is(run.Err(), context.DeadlineExceeded) {
			e.Exit = Exit{Code: CodeTimeout, Reason: Timeout}
		}
		return e
	}
	_, notRun := errors.AsType[*NotRunError](err)
	_, refused := errors.AsType[*policy.Refusal](err)
	if notRun || refused {
		return err
	}
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "launch_failed", Subject: "process tier",
		Why: "cannot start the sandbox: " + err.Error(), Fix: doctorFix, Err: err,
	}
}
