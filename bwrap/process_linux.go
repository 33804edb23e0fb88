package bwrap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/event"
	"pinfold/lease"
	"pinfold/notify"
	"pinfold/plan"
	"pinfold/policy"
	"pinfold/stub/wire"
	"pinfold/supervise"
)

// Process is a command that runs inside its boundary.
type Process struct {
	launch *Launch
	o      StartOptions

	monitor   *monitor
	family    *family
	control   *control
	forwarder *supervise.Forwarder
	relay     *relay
	hurried   chan struct{} // closed when this process is first asked to end
	hurry     sync.Once
	unread    bool
	egress    Egress
	engine    *notify.Engine

	transparency transparency
	ports        ports
	listeners    []net.Listener
	serving      sync.WaitGroup
	draining     supervise.Draining
	carried      supervise.Carried
	leases       *lease.Held
	boundary     *boundary
	capture      int // bubblewrap's standard error

	// The command: the stub's process, or with a terminal its child.
	commandFD  int
	commandPID int

	treeState

	done chan struct{}
	exit Exit
	err  error

	jobs sync.Mutex // one stop or first use of the terminal at a time
	told told

	mu     sync.Mutex
	reason Reason      // why this side ended the run, if it did
	stop   string      // what that had to deliver
	passed unix.Signal // the last signal to end the run that was passed on
}

// defaultGrace is how long a stop waits between SIGTERM and SIGKILL.
const defaultGrace = 10 * time.Second

// deathWait bounds how long a killed sandbox may take to be gone. Only a
// process stuck in the kernel, on a dead network file system, takes longer.
const deathWait = 10 * time.Second

// Pid is the command's process as the host counts.
func (p *Process) Pid() int { return p.commandPID }

// Done is closed when the command has ended and everything is cleaned up.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end. The error is about cleaning up, and doesn't change
// how the command ended.
func (p *Process) Wait() (Exit, error) {
	<-p.done
	return p.exit, p.err
}

// Stop ends the run: SIGTERM to the command, and after the grace SIGKILL to
// everything inside. It returns when all is over.
func (p *Process) Stop(grace time.Duration) error {
	p.terminate(Interrupted, grace)
	_, err := p.Wait()
	return err
}

// Kill ends the run at once. The reason is the first one given.
func (p *Process) Kill(r Reason) {
	p.ending(r, "kill")
	p.monitor.kill(p.family.initFD)
	_ = p.tree.Kill() // the pid namespace ends with its first process; this is for what isn't in it
}

// ending notes why this side ends the run.
func (p *Process) ending(r Reason, stop string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reason == "" {
		p.reason = r
	}
	p.stop = stop
}

// endedItself reports whether this side had no part in the end.
func (p *Process) endedItself() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reason == ""
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
	case <-p.done:
	case <-p.monitor.gone:
	case <-timer.C:
		p.Kill(r)
	}
}

// supervise watches a running command to its end.
func (p *Process) supervise(ctx context.Context) {
	if p.relay.hasInput() {
		go p.hear()
	}
	select {
	case <-p.monitor.gone:
	case <-ctx.Done():
		r := Interrupted
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			r = Timeout
		}
		p.terminate(r, p.o.grace())
		<-p.monitor.gone
	}
	p.err = p.cleanUp(ctx)
	p.exit = p.result()
	p.err = errors.Join(p.err, p.writeEnd())
	p.closeFDs()
	close(p.done)
}

// hear takes the stub's reports that the command was stopped. They come from
// inside the boundary, so nothing but that is made of them.
func (p *Process) hear() {
	for {
		pk, err := p.control.receive()
		if err != nil {
			return
		}
		pk.close()
		t, err := wire.PacketType(pk.body)
		switch {
		case err != nil:
		case t == wire.Stopped:
			p.stopped()
		case t == wire.Wants:
			p.wanted()
		}
	}
}

// cleanUp ends everything that served the command. First of all the last
// process inside must be gone: bubblewrap's monitor ends a moment earlier.
func (p *Process) cleanUp(ctx context.Context) error {
	err := errors.Join(awaitDeath(p.family), p.release())
	err = errors.Join(err, p.boundary.finish())
	within := time.Duration(0)
	if err == nil {
		within = p.readerTime()
		p.unread = !p.awaitReader(ctx)
	}
	p.relay.finish(err == nil && !p.unread)
	p.output.finish(err == nil && !p.unread)
	p.carried.Finish(within)
	if err == nil && p.endedItself() {
		p.draining.Run(p.egress, p.ports.list)
	}
	// The runtime lets go of the signals one by one, which takes two threads a
	// while; what comes before it has is for a command that has ended.
	go p.forwarder.Stop()
	p.control.close()
	if p.engine != nil {
		p.engine.Close()
	}
	p.transparency.close()
	p.ports.close()
	err = errors.Join(err, p.endEgress())
	if err == nil || p.leases == nil {
		err = errors.Join(err, p.leases.Vacate())
	}
	return err
}

// awaitDeath waits until the sandbox's pid 1 has gone, and with it, as the
// kernel promises (pid_namespaces(7)), everything inside.
func awaitDeath(f *family) error {
	fds := []unix.PollFd{{Fd: int32(f.initFD), Events: unix.POLLIN}}
	deadline := time.Now().Add(deathWait)
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return fmt.Errorf("cannot end the sandbox: its pid 1, %d here, is still there after %v", f.init.pid, deathWait)
		}
		n, err := unix.Poll(fds, int(left.Milliseconds())+1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("cannot wait for the end of the sandbox: %w", err)
		}
		if n > 0 {
			break
		}
	}
	// It is ours to reap if this process is init, or a subreaper.
	_, _ = unix.Wait4(f.init.pid, nil, unix.WNOHANG, &f.rusage)
	return nil
}

func (p *Process) endEgress() error {
	if p.egress == nil {
		return nil
	}
	err := p.egress.Close()
	for _, l := range p.listeners {
		l.Close() // Close of the server may have done it
	}
	p.serving.Wait()
	if err != nil {
		return fmt.Errorf("cannot end the proxy: %w", err)
	}
	return nil
}

// result reads how the command ended: bubblewrap passes its code on, and 128+n
// for signal n.
func (p *Process) result() Exit {
	ws := p.monitor.status
	code := ws.ExitStatus()
	sig := endSignal(p.commandFD)
	if ws.Signaled() {
		code = CodeSignal + int(ws.Signal())
		if sig == 0 {
			sig = ws.Signal()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	e := exitOf(code, sig)
	e.Stop, e.Unread = p.stop, p.unread
	switch {
	case p.ranOut(e):
		e.Reason = OOM
	case p.passed != 0 && e.Code == CodeSignal+int(p.passed):
		e.Reason = Interrupted // by whoever sent it here
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
	return e
}

// endSignal is the signal that ended a process, from its pidfd, which knows
// even after somebody else has reaped it (PIDFD_INFO_EXIT, Linux 6.15). Zero
// means none, or that the kernel doesn't say.
func endSignal(pidfd int) unix.Signal {
	info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
	if err := unix.IoctlPidfdInfo(pidfd, &info); err != nil || info.Mask&unix.PIDFD_INFO_EXIT == 0 {
		return 0
	}
	if ws := unix.WaitStatus(info.Exit_code); ws.Signaled() {
		return ws.Signal()
	}
	return 0
}

func writeExit(rec *plan.Record, e Exit) error {
	if rec == nil {
		return nil
	}
	return rec.WriteExit(plan.Exit{
		Time: time.Now(), Code: e.Code, Reason: string(e.Reason), Signal: int(e.Signal), Stop: e.Stop,
	})
}

// closeFDs gives the last descriptors back. After that there is nobody to
// send a signal to.
func (p *Process) closeFDs() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.commandFD != p.family.stubFD {
		closeFD(&p.commandFD)
	}
	p.commandFD = -1
	p.family.close()
	closeFD(&p.capture)
	if p.monitor != nil {
		closeFD(&p.monitor.pidfd)
	}
}

func closeFD(fd *int) {
	if *fd >= 0 {
		unix.Close(*fd)
	}
	*fd = -1
}

func (o *StartOptions) grace() time.Duration {
	if o.Grace <= 0 {
		return defaultGrace
	}
	return o.Grace
}

// serve runs the egress side of one listener. If it ends before the run does,
// nothing leaves any more: that is no hole, but worth a line.
func (p *Process) serve(ctx context.Context, l net.Listener) {
	p.serving.Go(func() {
		err := p.egress.Serve(ctx, l)
		if err == nil || errors.Is(err, net.ErrClosed) {
			return
		}
		if p.o.Notice != nil {
			p.o.Notice(fmt.Sprintf("the proxy for %s has ended: %v", l.Addr(), err))
		}
		if p.o.Events != nil {
			p.o.Events.Emit(event.Event{
				Time: time.Now(), Run: p.o.Run, Kind: event.Network, Action: event.Noticed,
				Target: l.Addr().String(), Reason: "proxy_ended",
			})
		}
	})
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
