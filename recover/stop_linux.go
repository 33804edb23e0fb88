package recover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/plan"
)

// The steps of a stop after the grace. A sandbox ends within milliseconds of
// its pid 1, unless a process is stuck in the kernel.
const (
	cleanTime = 5 * time.Second  // for the supervisor to see it and clean up
	deathTime = 10 * time.Second // for everything to be gone
)

// Stop ends the launch: SIGTERM to the command, after the grace SIGKILL to the
// sandbox's pid 1, and with it, as the kernel promises (pid_namespaces(7)),
// everything inside, and at last to a supervisor that doesn't end. When it
// returns without an error nothing of the launch runs any more.
func (r *Run) Stop(ctx context.Context, grace time.Duration) (Stopped, error) {
	done := Stopped{Record: r.stored.Path, State: r.state, Exit: r.stored.Exit}
	switch r.state {
	case Starting:
		return done, unclear("the launch is just starting")
	case Exited, NotStarted, Lost:
		return done, nil
	}
	if err := r.end(ctx, grace, &done); err != nil {
		return done, err
	}
	exit, err := r.Wait(ctx)
	if err != nil && !errors.Is(err, ErrLost) {
		return done, err
	}
	if err == nil {
		done.Exit = &exit
	}
	return done, nil
}

// end takes the steps until one has ended it.
func (r *Run) end(ctx context.Context, grace time.Duration, done *Stopped) error {
	done.Sent = plan.StopTerm
	if err := r.ask(); err != nil {
		return err
	}
	if gone, err := r.goneWithin(ctx, grace); gone || err != nil {
		return err
	}
	done.Sent = plan.StopKill
	if err := plan.NoteStop(r.stored.Path, plan.StopKill); err != nil {
		return err
	}
	if err := r.init.kill(); err != nil {
		return err
	}
	if gone, err := r.goneWithin(ctx, cleanTime); gone || err != nil {
		return err
	}
	done.SupervisorKilled = r.supervisor != nil
	if err := errors.Join(r.supervisor.kill(), r.bwrap.kill()); err != nil {
		return err
	}
	gone, err := r.goneWithin(ctx, deathTime)
	if err == nil && !gone {
		err = fmt.Errorf("cannot end the launch of %q: something of it is still there %v after SIGKILL", r.stored.Path, deathTime)
	}
	return err
}

// ask sends SIGTERM, and SIGCONT for a command that is stopped.
func (r *Run) ask() error {
	if r.command == nil {
		return nil
	}
	if err := plan.NoteStop(r.stored.Path, plan.StopTerm); err != nil {
		return err
	}
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGCONT} {
		if err := r.Signal(sig); err != nil && !errors.Is(err, ErrEnded) {
			return err
		}
	}
	return nil
}

// kill ends a process; one that has gone, or was never held, is no error.
func (p *process) kill() error {
	if p == nil {
		return nil
	}
	err := unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0)
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("cannot kill process %d: %w", p.pid, err)
	}
	return nil
}

// goneWithin waits for the supervisor, bubblewrap and the sandbox's pid 1.
func (r *Run) goneWithin(ctx context.Context, d time.Duration) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for _, p := range []*process{r.supervisor, r.bwrap, r.init} {
		if p == nil {
			continue
		}
		if err := p.await(limited); err != nil {
			if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
				return false, nil
			}
			return false, err
		}
	}
	return true, nil
}
