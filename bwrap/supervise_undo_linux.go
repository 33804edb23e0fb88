package bwrap

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"pinfold/policy"
)

// brokeOff is for a socket that closed too early, or a launch that was
// interrupted. Whoever has died is given the time to be dead.
func (s *launcher) brokeOff(ctx context.Context, cause error) error {
	if errors.Is(cause, os.ErrDeadlineExceeded) && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := s.Process.control.lastWord(); err != nil {
		return err
	}
	s.Process.control.close() // a stub that waits gives up
	isClosed := errors.Is(cause, errClosed)
	s.monitor.settled = s.monitor.settled || !isClosed
	s.monitor.end(s.family.initFD)
	if s.family.initFD >= 0 || !isClosed {
		return s.stubError("the stub broke off", cause)
	}
	return bwrapError(s.launch.Plan.Tool.Path, how(s.monitor.status), captured(s.capture))
}

// stubError is what the supervisor makes of a stub that isn't as it should be,
// unless it has said itself why: it may have ended by the time it is looked at.
func (s *launcher) stubError(what string, cause error) error {
	if err := s.Process.control.lastWord(); err != nil {
		return err
	}
	return stubError(what, cause, captured(s.capture))
}

// how says how a process ended.
func how(ws unix.WaitStatus) string {
	if ws.Signaled() {
		return "was ended by " + unix.SignalName(ws.Signal())
	}
	return fmt.Sprintf("exited with status %d", ws.ExitStatus())
}

// undo ends what a failed launch has begun, in the reverse order.
func (s *launcher) undo(cause error) error {
	s.closeNull()
	s.in.close()
	s.data.close()
	if s.Process.control != nil {
		s.Process.control.close()
	}
	var err error
	if s.monitor != nil {
		s.monitor.end(s.family.initFD)
		if s.family.initFD >= 0 {
			err = awaitDeath(s.family)
		}
	}
	err = errors.Join(err, s.release())
	s.output.abandon()
	s.carried.Finish(0)
	s.relay.finish(s.released && err == nil)
	s.signals.Wait()
	s.forwarder.Stop()
	if s.engine != nil {
		s.engine.Close()
	}
	s.transparency.close()
	s.ports.close()
	s.abandonEgress()
	for _, l := range s.listeners {
		l.Close()
	}
	s.serving.Wait()
	err = errors.Join(err, s.abandonWatch(), s.boundary.finish(), s.leases.Vacate())
	if s.digest != "" && !s.again(cause) {
		err = errors.Join(err, s.writeFailure(asExit(cause)))
	}
	s.closeFDs()
	return err
}

// abandonEgress ends a proxy that nobody will use, made or still to be made.
func (s *launcher) abandonEgress() {
	if s.outcome != nil {
		if r := <-s.outcome; r.err == nil {
			s.egress = r.egress
		}
	}
	if s.egress != nil {
		s.egress.Close()
	}
}

// asLaunchError makes a refusal of whatever isn't one yet: this machine could
// not do it.
func asLaunchError(launching, run context.Context, err error) error {
	if cause := context.Cause(launching); launching.Err() != nil && run.Err() == nil {
		if e, ok := errors.AsType[*NotRunError](cause); ok {
			return e
		}
	}
	if run.Err() != nil {
		return cancelled(run)
	}
	if _, ok := errors.AsType[*NotRunError](err); ok {
		return err
	}
	if _, ok := errors.AsType[*policy.Refusal](err); ok {
		return err
	}
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "launch_failed", Subject: "process tier",
		Why: "cannot start the sandbox: " + err.Error(), Fix: doctorFix, Err: err,
	}
}

// cancelled is a launch whose run was over before it began.
func cancelled(run context.Context) error {
	e := interrupted(0, context.Cause(run))
	if errors.Is(run.Err(), context.DeadlineExceeded) {
		e.Exit = Exit{Code: CodeTimeout, Reason: Timeout}
	}
	return e
}
