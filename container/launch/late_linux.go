package launch

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"pinfold/container"
	"pinfold/plan"
	"pinfold/stub/wire"
)

// A container that nobody supervises may end by itself before it is taken
// over, or while it is. Then nothing but its end is left to see to.

// cameLate reports whether that is why an attempt to take over failed, and
// prepares for the end. The kernel is asked first, since it knows before an
// engine does.
func (p *Process) cameLate(ctx context.Context, s *plan.Stored) bool {
	if p.streams == nil || !isGone(s.Root.Init) { // without them it isn't even ours to end
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), confirmTime)
	defer cancel()
	state, err := p.o.Provider.Wait(ctx, p.ref)
	if err != nil || !state.Ended() {
		return false
	}
	p.recallEnd(state)
	closeCarriers(p.carriers)
	p.carriers = nil // what still waits at them is of nobody
	return true
}

// dyingTime is how long the first process of a container that has let its
// socket go may take to end: it waits for all others (pid_namespaces(7)).
const dyingTime = lettingGo

// isGone reports whether a recorded process has ended.
func isGone(was plan.Process) bool {
	fd, err := unix.PidfdOpen(was.PID, 0)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer unix.Close(fd)
	if now, err := processOf(was.PID); err == nil && now != was {
		return true
	}
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(dyingTime.Milliseconds()))
	return err == nil && n > 0
}

// recallEnd learns how the command ended, as [Process.hear] does of a stub that
// has somebody to tell.
func (p *Process) recallEnd(state container.State) {
	n, err := ReadNotes(p.o.Dirs)
	if err != nil || n.Termed {
		p.termed.Store(true) // if that can't be told nobody relies on its end
	}
	switch {
	case n.Signal != 0:
		p.end = &wire.End{Code: CodeSignal + n.Signal, Signal: n.Signal}
	case n.Ended:
		p.end = &wire.End{Code: n.Code}
	case state.ExitCode == CodeRefused:
		p.reason = Unavailable // the stub's own end: the command never ran
	}
}

// conclude sees to the end. What appeared under guarded names while nobody
// supervised is taken away, as at the end of any run.
func (p *Process) conclude() {
	if p.boundary == nil && p.o.Watch != nil {
		names, err := p.o.Watch(nil, func() error { return nil }, p.lose)
		if err == nil {
			err = names.Finish()
		}
		if lost := lossIn(err); lost != nil {
			p.lose(lost)
		} else if err != nil {
			p.err = err
		}
	}
	p.finish()
	close(p.done)
}
