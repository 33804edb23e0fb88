package launch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// interrupted is a launch that a signal or the caller ended before the command
// ran.
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

// lostEarly is a boundary that was lost while the command was just starting.
func lostEarly(loss error) *NotRunError {
	return &NotRunError{
		Exit: Exit{Code: CodeBoundaryLost, Reason: BoundaryLost, Stop: "kill"},
		Why:  "cannot go on with the command, which was just starting: " + loss.Error(), Err: loss,
	}
}

// asLaunchError puts the end of a context in words.
func asLaunchError(launching, ctx context.Context, err error) error {
	var early *NotRunError
	switch {
	case errors.As(context.Cause(launching), &early):
		return early
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return &NotRunError{Exit: Exit{Code: CodeTimeout, Reason: Timeout}, Why: "cannot run the command: the timeout passed first", Err: err}
	case ctx.Err() != nil:
		return interrupted(0, context.Cause(ctx))
	case launching.Err() != nil:
		return stubError("it took too long", err)
	}
	return err
}

// undo takes back what a launch that failed has made. A container that can't
// be removed is said, and stays recorded.
func (s *launcher) undo(cause error) error {
	ctx, cancel := context.WithTimeout(context.Background(), confirmTime)
	defer cancel()
	var errs []error
	s.forwarder.Stop()
	if s.streams != nil {
		s.streams.began()
		s.talk.close()
	}
	removed := true
	if s.ref.ID != "" {
		if err := s.discard(ctx); err != nil {
			removed = false
			s.o.notice(err.Error())
			errs = append(errs, err)
		}
	}
	if s.setup.TTY != 0 {
		s.o.Terminal.Finish(s.terminal && removed)
	}
	if s.streams != nil {
		s.streams.finish()
	}
	if s.egress != nil {
		if r := <-s.egress; r.err == nil {
			s.Process.egress = r.egress
		}
	}
	errs = append(errs, s.boundary.finish(), s.endServing())
	s.meeting.close()
	errs = append(errs, s.leases.Release())
	if removed {
		errs = append(errs, s.o.Dirs.Remove(), s.writeFailure(cause))
	}
	s.closeAll()
	return errors.Join(append(errs, s.Process.err)...)
}

// discardTries and discardPause bound how long an engine may refuse.
const (
	discardTries = 5
	discardPause = 200 * time.Millisecond
)

// discard ends and removes the container. The stub ends by itself once nobody
// talks to it, and an engine may refuse to stop or to remove what is just
// ending. A removal kills, too, so that it may come first.
func (s *launcher) discard(ctx context.Context) (err error) {
	for try := range discardTries {
		if try > 0 {
			select {
			case <-ctx.Done():
				return err
			case <-time.After(discardPause):
			}
		}
		stopped := s.o.Provider.Stop(ctx, s.ref, 0)
		if err = s.o.Provider.Remove(ctx, s.ref); err == nil {
			return nil
		}
		err = fmt.Errorf("cannot remove the container: %w", errors.Join(err, stopped))
	}
	return err
}

// writeFailure notes the end of a launch whose plan was pinned.
func (s *launcher) writeFailure(cause error) error {
	if s.digest == "" {
		return nil
	}
	return s.writeExit(asExit(cause))
}
