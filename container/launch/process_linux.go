package launch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/container"
	"pinfold/event"
	"pinfold/lease"
	"pinfold/plan"
	"pinfold/policy"
	"pinfold/stub/wire"
	"pinfold/supervise"
)

// Process is a command that runs in its container.
type Process struct {
	o       Options
	ref     container.Ref
	seat    *seat
	nonce   [wire.NonceSize]byte
	notes   *os.File
	streams *streams
	talk    *talk
	stub    stubProcess
	cgroups cgroups
	room    supervise.Room

	forwarder *supervise.Forwarder
	egress    Egress
	proxy     net.Listener
	carriers  []supervise.Carrier
	draining  supervise.Draining
	serving   sync.WaitGroup
	unserve   context.CancelFunc
	unwatch   chan struct{} // closed when no socket matters any more

	termed atomic.Bool   // SIGTERM came from outside of the container
	heard  chan struct{} // closed when the stub has nothing more to say
	end    *wire.End     // what it said of the end, once heard is closed

	done   chan struct{}
	exit   Exit
	err    error
	usage  plan.Usage
	limits []plan.LimitResult

	boundary *boundary
	leases   *lease.Held // of mount points on the host
	terminal bool        // Options.Terminal was started

	mu      sync.Mutex
	loss    error       // how the boundary was lost
	reason  Reason      // why this side ended the run, if it did
	idle    bool        // it was the idle timeout
	stopped string      // what that had to deliver
	passed  unix.Signal // the last signal to end the run that was passed on
}

func newProcess(o Options) *Process {
	return &Process{o: o, stub: stubProcess{pidfd: -1}, heard: make(chan struct{}), unwatch: make(chan struct{}), done: make(chan struct{})}
}

// Ref names the container.
func (p *Process) Ref() container.Ref { return p.ref }

// Done is closed when the command has ended and everything is cleaned up.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end. The error is about what comes after the command's
// end, and doesn't change how that ended.
func (p *Process) Wait() (Exit, error) {
	<-p.done
	return p.exit, p.err
}

// Usage is what the container used, once it has ended.
func (p *Process) Usage() plan.Usage { return p.usage }

// Limits are the limits in force, with how often each was hit.
func (p *Process) Limits() []plan.LimitResult { return p.limits }

// Stop ends the run: SIGTERM to the command, and after the grace SIGKILL to
// the container. It returns when all is over.
func (p *Process) Stop(grace time.Duration) error {
	p.terminate(Interrupted, grace)
	_, err := p.Wait()
	return err
}

// Signal sends a signal to the command. The error is [os.ErrProcessDone] once
// it has ended.
func (p *Process) Signal(sig unix.Signal) error {
	select {
	case <-p.heard:
		return os.ErrProcessDone
	default:
	}
	return p.talk.send(wire.EncodeKill(int(sig)))
}

// note writes to the record what the command is about to be sent.
func (p *Process) note(what string) {
	if p.o.Record == nil {
		return
	}
	step := plan.Step{Time: time.Now(), Action: plan.StepSent, Kind: plan.StepStop, Detail: what}
	if err := p.o.Record.Add(step); err != nil {
		p.o.notice(fmt.Sprintf("cannot note what the command is sent: %v", err))
	}
}

// ending notes why this side ends the run.
func (p *Process) ending(r Reason, stop string) {
	p.mu.Lock()
	if p.reason == "" {
		p.reason = r
	}
	p.stopped = stop
	p.mu.Unlock()
	p.note(stop)
}

// terminate asks the command to end, and after the grace makes it.
func (p *Process) terminate(r Reason, grace time.Duration) {
	p.ending(r, plan.StopTerm)
	_ = p.Signal(unix.SIGTERM)
	_ = p.Signal(unix.SIGCONT) // one that is stopped can't hear
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-p.heard:
	case <-timer.C:
		p.kill(r)
	}
}

// kill ends the container at once, by its first process, which takes all
// others along (pid_namespaces(7)). An engine that doesn't answer is not
// needed where the kernel lets this process do it.
func (p *Process) kill(r Reason) {
	p.ending(r, plan.StopKill)
	if err := unix.PidfdSendSignal(p.stub.pidfd, unix.SIGKILL, nil, 0); err == nil || errors.Is(err, unix.ESRCH) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), confirmTime)
	defer cancel()
	if err := p.o.Provider.Signal(ctx, p.ref, unix.SIGKILL); err != nil && !errors.Is(err, container.ErrNoContainer) {
		p.o.notice(fmt.Sprintf("cannot kill the container: %v", err))
	}
}

// hear takes what the stub says until it has nothing more to say.
func (p *Process) hear() {
	defer close(p.heard)
	for {
		pk, err := p.talk.receive()
		if err != nil {
			return
		}
		pk.close()
		switch pk.kind {
		case wire.Stopped:
			p.jobs(Terminal.Stopped)
		case wire.Wants:
			p.jobs(Terminal.Wanted)
		case wire.Termed:
			p.termed.Store(true)
			p.o.emit(event.Event{Kind: event.Signal, Action: event.Noticed, Target: "SIGTERM", Reason: "from_outside"})
		case wire.Ended:
			if end, err := wire.DecodeEnded(pk.body); err == nil {
				p.end = &end
			}
			return
		}
	}
}

// jobs hands a report of the stub's to the terminal. It may stop this process,
// so that nothing else waits for it.
func (p *Process) jobs(do func(Terminal, func())) {
	if p.terminal {
		go do(p.o.Terminal, func() { _ = p.Signal(unix.SIGCONT) })
	}
}

// supervise watches a running command to its end.
func (p *Process) supervise(ctx context.Context) {
	select {
	case <-p.heard:
	case <-ctx.Done():
		r := Interrupted
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			r = Timeout
		}
		p.terminate(r, p.o.grace())
		<-p.heard
	}
	p.finish()
	close(p.done)
}

// endedItself reports whether this side had no part in the end.
func (p *Process) endedItself() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reason == ""
}

// confirmTime is how long an engine may take to confirm an end. One that is
// restarting is waited for.
const confirmTime = 60 * time.Second

// finish reads what is left to read, lets pid 1 go, and has the engine confirm
// the end.
func (p *Process) finish() {
	p.usage = p.cgroups.usage()
	oom := p.cgroups.outOfMemory()
	p.limits = p.limitResults(oom)
	_ = p.talk.send(wire.EncodeSignal(wire.Bye)) // it may be gone
	ctx, cancel := context.WithTimeout(context.Background(), confirmTime)
	defer cancel()
	state, err := p.o.Provider.Wait(ctx, p.ref)
	if err != nil {
		p.err = fmt.Errorf("cannot confirm the container's end: %w", err)
	}
	if p.terminal {
		p.o.Terminal.Finish(err == nil)
	}
	p.streams.finish()
	if err == nil && p.endedItself() {
		p.draining.Run(p.egress, p.carriers)
	}
	p.forwarder.Stop()
	p.err = errors.Join(p.err, p.boundary.finish(), p.endServing())
	p.exit = p.result(state, err == nil, oom > 0 || state.OOM)
	if err == nil {
		p.err = errors.Join(p.err, p.writeExit(p.exit), p.remove(ctx))
	}
	p.err = errors.Join(p.err, p.leases.Release())
	p.closeAll()
}

// remove takes the container away with all that it had mounted of this
// launch's own. The end is recorded by then.
func (p *Process) remove(ctx context.Context) error {
	if err := p.o.Provider.Remove(ctx, p.ref); err != nil {
		return fmt.Errorf("cannot remove the container: %w", err)
	}
	return p.o.Dirs.Remove()
}

// result is how it ended: by the engine's code, and the stub's word on what
// that means. A pid 1 that was killed had said before how the command ended, or
// the command was killed with it.
func (p *Process) result(state container.State, known, oom bool) Exit {
	e := Exit{Code: state.ExitCode, Reason: Exited}
	switch {
	case p.end != nil && (!known || state.KillSeen()):
		e.Code = p.end.Code
	case !known:
		e.Code = container.KilledCode // the command with it
	}
	switch {
	case p.end != nil && p.end.Signal != 0 && e.Code == p.end.Code:
		e.Signal, e.Reason = unix.Signal(p.end.Signal), Signaled
	case p.end == nil && e.Code == CodeSignal+int(unix.SIGKILL):
		e.Signal, e.Reason = unix.SIGKILL, Signaled // pid 1 itself was killed
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	e.Stop = p.stopped
	switch {
	case oom && e.Signal == unix.SIGKILL:
		e.Reason = OOM
	case p.passed != 0 && e.Code == CodeSignal+int(p.passed):
		e.Reason = Interrupted
	case p.termed.Load() && p.reason == "":
		e.Reason = Interrupted // whatever its code: nobody here asked for that
	}
	switch p.reason {
	case "":
	case Timeout:
		e.Code, e.Reason = CodeTimeout, Timeout
	case BoundaryLost:
		e.Code, e.Reason = CodeBoundaryLost, BoundaryLost
	default:
		e.Reason = p.reason
	}
	return p.stoppedByOthers(e)
}

// stoppedByOthers: a stop that somebody else announced in the record.
func (p *Process) stoppedByOthers(e Exit) Exit {
	if p.o.Record == nil || p.reason != "" {
		return e
	}
	what, err := p.o.Record.Stop()
	if err != nil {
		p.o.notice(err.Error())
	}
	if what != "" {
		e.Reason, e.Stop = Interrupted, what
	}
	return e
}

func (p *Process) writeExit(e Exit) error {
	if p.o.Record == nil {
		return nil
	}
	return p.o.Record.WriteExit(plan.Exit{Time: time.Now(), Code: e.Code, Reason: string(e.Reason), Signal: int(e.Signal), Stop: e.Stop})
}

func (p *Process) limitResults(oom int64) []plan.LimitResult {
	p.mu.Lock()
	timedOut, idle := p.reason == Timeout, p.idle
	p.mu.Unlock()
	hit := func(yes bool) int64 {
		if yes {
			return 1
		}
		return 0
	}
	var out []plan.LimitResult
	for _, l := range p.o.Launch.Plan.Limits {
		r := plan.LimitResult{Name: l.Name, Value: l.Value}
		switch l.Name {
		case "cpus":
			r.Hits = p.cgroups.throttled()
		case "memory":
			r.Hits = oom
		case "pids":
			r.Hits = p.cgroups.pidsRefused()
		case "file_size":
			r.Hits = hit(p.end != nil && (p.end.Signal == int(unix.SIGXFSZ) || p.end.Code == CodeSignal+int(unix.SIGXFSZ)))
		case "tmp":
			r.Hits = p.room.Full()
		case "timeout":
			r.Hits = hit(timedOut && !idle)
		case "idle_timeout":
			r.Hits = hit(idle)
		}
		out = append(out, r)
	}
	return out
}

func (p *Process) closeAll() {
	p.talk.close()
	p.room.Full() // it lets go of them
	if p.stub.pidfd >= 0 {
		unix.Close(p.stub.pidfd)
		p.stub.pidfd = -1
	}
	p.err = errors.Join(p.err, p.seat.leave())
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
