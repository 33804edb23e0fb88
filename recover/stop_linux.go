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
// everything inside, and at last to a supervisor that doesn't see it. When it
// returns without an error nothing of the sandbox runs any more.
func (r *Run) Stop(ctx context.Context, grace time.Duration) (Stopped, error) {
	done := Stopped{Record: r.stored.Path, State: r.state, Exit: r.stored.Exit}
	if r.state == Starting {
		return done, unclear("the launch is just starting")
	}
	if r.c != nil {
		return r.stopContainer(ctx, grace)
	}
	if r.bwrap == nil && r.init == nil && r.state != Running {
		return done, nil
	}
	if err := r.end(ctx, grace, &done); err != nil {
		return done, err
	}
	done.Exit = r.stored.Exit
	return done, nil
}

// end takes the steps until one has ended it. One that has an exit recorded,
// and still runs, is past being asked.
func (r *Run) end(ctx context.Context, grace time.Duration, done *Stopped) error {
	if r.state == Running {
		done.Sent = plan.StopTerm
		if err := r.ask(); err != nil {
			return err
		}
		if gone, err := r.goneWithin(ctx, grace); gone || err != nil {
			return err
		}
		if err := plan.NoteStop(r.stored.Path, plan.StopKill); err != nil {
			return err
		}
	}
	done.Sent = plan.StopKill
	if err := r.init.kill(); err != nil {
		return err
	}
	if gone, err := r.goneWithin(ctx, cleanTime); gone || err != nil {
		return err
	}
	return r.killAll(ctx, done)
}

// killAll kills the supervisor too, unless it is a program that supervises
// more than this launch.
func (r *Run) killAll(ctx context.Context, done *Stopped) error {
	if err := r.bwrap.kill(); err != nil {
		return err
	}
	if r.supervisor != nil {
		more, err := r.servesMore()
		if err != nil {
			return err
		}
		if more {
			return fmt.Errorf("cannot end the launch of %q: process %d, which supervises more than this one, doesn't see its end", r.stored.Path, r.supervisor.pid)
		}
		done.SupervisorKilled = true
		if err := r.supervisor.kill(); err != nil {
			return err
		}
	}
	gone, err := r.goneWithin(ctx, deathTime)
	if err == nil && !gone {
		err = fmt.Errorf("cannot end the launch of %q: something of it is still there %v after SIGKILL", r.stored.Path, deathTime)
	}
	return err
}

// servesMore: the supervisor has children beside this launch's bubblewrap.
func (r *Run) servesMore() (bool, error) {
	kids, err := living(r.supervisor)
	if errors.Is(err, errGone) {
		return false, nil
	}
	defer closeAll(kids)
	for _, kid := range kids {
		if !kid.is(r.stored.Root.Bwrap) {
			return true, err
		}
	}
	return false, err
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

// goneWithin waits for the sandbox to be gone and its end to be recorded.
func (r *Run) goneWithin(ctx context.Context, d time.Duration) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	err := r.settle(limited)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return false, nil
	}
	return err == nil, err
}
