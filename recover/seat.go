package recover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/plan"
	"pinfold/seatbelt"
)

// seatRun is a recorded launch of sandbox-exec's. macOS has no descriptors of
// processes: one is known by its pid and its start time, to the microsecond,
// which is compared again before each signal.
type seatRun struct {
	stored              *plan.Stored
	state               State
	supervisor, command bool // alive
}

// lookInterval is how often it is looked whether a process has ended that is
// nobody's child here.
const lookInterval = 50 * time.Millisecond

func openSeat(record string) (*seatRun, error) {
	r := &seatRun{}
	return r, r.open(record)
}

// open asks for the lock first: an exit that is written after that shows in
// what is read next.
func (r *seatRun) open(record string) error {
	held, err := plan.IsHeld(record)
	if err != nil {
		return err
	}
	r.stored, err = plan.ReadRecord(record)
	if errors.Is(err, fs.ErrNotExist) && held {
		r.state, r.stored = Starting, &plan.Stored{Path: record, Plan: &plan.Plan{}} // not even pinned yet
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case r.stored.Exit != nil:
		r.state = Exited
		return nil
	case r.stored.Root == nil && held:
		r.state = Starting
		return nil
	case r.stored.Root == nil:
		r.state = NotStarted
		return nil
	}
	return r.look()
}

// look sees which of the recorded processes still are what they were.
func (r *seatRun) look() (err error) {
	root := r.stored.Root
	boot, err := seatbelt.BootID()
	if err != nil {
		return err
	}
	if boot == root.BootID {
		if r.supervisor, err = isAlive(root.Supervisor); err != nil {
			return err
		}
		if r.command, err = isAlive(root.Command); err != nil {
			return err
		}
	}
	r.state = Lost
	if r.supervisor || r.command {
		r.state = Running
	}
	return nil
}

func isAlive(was plan.Process) (bool, error) {
	p, ok, err := seatbelt.LookUp(was.PID)
	return err == nil && ok && p.Start == was.StartTicks && !p.Ended, err
}

// openSeatStarted is openSeat for a record whose launch may have begun just
// now: it waits until that runs, or has failed to.
func openSeatStarted(ctx context.Context, record string) (*seatRun, error) {
	var r *seatRun
	err := every(ctx, lookInterval, func() (done bool, err error) {
		r, err = openSeat(record)
		return err != nil || r.state != Starting, err
	})
	if ctx.Err() != nil {
		return nil, unclear("the launch is still starting: %v", ctx.Err())
	}
	return r, err
}

// every calls look until it is done, at once and then at intervals.
func every(ctx context.Context, d time.Duration, look func() (bool, error)) error {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		if done, err := look(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Close has nothing to let go of.
func (r *seatRun) Close() {}

// State is what the launch was doing when it was opened.
func (r *seatRun) State() State { return r.state }

// Exit is the recorded one, or nil.
func (r *seatRun) Exit() *plan.Exit { return r.stored.Exit }

// StateDir is the state directory that the launch used.
func (r *seatRun) StateDir() string { return r.stored.Plan.Paths.State }

// Info says what is known of the launch.
func (r *seatRun) Info() Info {
	s := r.stored
	i := Info{
		Record: s.Path, State: r.state, Digest: s.Digest, Owner: s.Plan.Owner,
		Workspace: r.real(s.Plan.Paths.Workspace), Command: s.Plan.Command, Exit: s.Exit,
	}
	if s.Root != nil {
		i.Started = s.Root.Started.UTC().Format(time.RFC3339)
	}
	if r.state == Running {
		i.Root, i.PID = s.Root.Supervisor.PID, s.Root.Command.PID
	}
	return i
}

// real replaces the names of directories that were made for the launch.
func (r *seatRun) real(path string) string {
	if r.stored.Root == nil {
		return path
	}
	for name, dir := range r.stored.Root.Fresh {
		if rest, named := strings.CutPrefix(path, name); named {
			return dir + rest
		}
	}
	return path
}

// Signal sends a signal to the command itself. The error is [ErrEnded] when
// it has ended.
func (r *seatRun) Signal(sig unix.Signal) error {
	if r.state == Starting {
		return unclear("the command isn't running yet")
	}
	if !r.command {
		return ErrEnded
	}
	alive, err := isAlive(r.stored.Root.Command)
	switch {
	case err != nil:
		return err
	case !alive:
		return ErrEnded
	}
	err = unix.Kill(r.stored.Root.Command.PID, sig)
	if errors.Is(err, unix.ESRCH) {
		return ErrEnded
	}
	if err != nil {
		return fmt.Errorf("cannot send %s to the command: %w", unix.SignalName(sig), err)
	}
	return nil
}

// Wait waits for the end of the launch and answers how it ended, without being
// its parent: the supervisor records it last of all. The error is [ErrLost]
// when it was killed instead.
func (r *seatRun) Wait(ctx context.Context) (plan.Exit, error) {
	if r.stored.Exit != nil {
		return *r.stored.Exit, nil
	}
	if r.state == Starting {
		return plan.Exit{}, unclear("the launch is just starting")
	}
	if gone, err := r.goneWithin(ctx, math.MaxInt64); !gone {
		return plan.Exit{}, errors.Join(err, ctx.Err())
	}
	s, err := plan.ReadRecord(r.stored.Path)
	if err != nil {
		return plan.Exit{}, err
	}
	if s.Exit == nil {
		return plan.Exit{}, ErrLost
	}
	r.stored = s
	return *s.Exit, nil
}

// goneWithin waits for the supervisor and for all that is known of the run.
func (r *seatRun) goneWithin(ctx context.Context, d time.Duration) (bool, error) {
	limited, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	err := every(limited, lookInterval, r.gone)
	if err != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return false, nil
	}
	return err == nil, err
}

func (r *seatRun) gone() (bool, error) {
	if r.stored.Root == nil || r.state != Running {
		return true, nil
	}
	alive, err := isAlive(r.stored.Root.Supervisor)
	if alive || err != nil {
		return false, err
	}
	left, err := seatbelt.RunOf(r.stored.Root.Command)
	return len(left) == 0, err
}

// Stop ends the launch: SIGTERM to the command, after the grace SIGKILL to all
// that is known of the run, and at last to a supervisor that doesn't end.
func (r *seatRun) Stop(ctx context.Context, grace time.Duration) (Stopped, error) {
	done := Stopped{Record: r.stored.Path, State: r.state, Exit: r.stored.Exit}
	switch r.state {
	case Starting:
		return done, unclear("the launch is just starting")
	case Exited, NotStarted, Lost:
		return done, nil
	case Running:
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

// The steps of a stop after the grace.
const (
	seatCleanTime = 5 * time.Second  // for the supervisor to see it and clean up
	seatDeathTime = 10 * time.Second // for everything to be gone
)

// end takes the steps until one has ended it.
func (r *seatRun) end(ctx context.Context, grace time.Duration, done *Stopped) error {
	for _, s := range []struct {
		sent string
		do   func() error
		wait time.Duration
	}{
		{plan.StopTerm, r.ask, grace},
		{plan.StopKill, func() error { return r.killAll(false) }, seatCleanTime},
		{plan.StopKill, func() error { done.SupervisorKilled = r.supervisor; return r.killAll(true) }, seatDeathTime},
	} {
		done.Sent = s.sent
		if err := plan.NoteStop(r.stored.Path, s.sent); err != nil {
			return err
		}
		if err := s.do(); err != nil {
			return err
		}
		if gone, err := r.goneWithin(ctx, s.wait); gone || err != nil {
			return err
		}
	}
	return fmt.Errorf("cannot end the launch of %q: something of it is still there %v after SIGKILL", r.stored.Path, seatDeathTime)
}

// ask sends SIGTERM, and SIGCONT for a command that is stopped.
func (r *seatRun) ask() error {
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGCONT} {
		if err := r.Signal(sig); err != nil && !errors.Is(err, ErrEnded) {
			return err
		}
	}
	return nil
}

// killAll ends what is known of the run, and at last its supervisor.
func (r *seatRun) killAll(supervisor bool) error {
	list, err := seatbelt.RunOf(r.stored.Root.Command)
	if err != nil {
		return err
	}
	if s := r.stored.Root.Supervisor; supervisor {
		list = append(list, seatbelt.Proc{PID: s.PID, Start: s.StartTicks})
	}
	for _, p := range list {
		alive, err := isAlive(plan.Process{PID: p.PID, StartTicks: p.Start})
		if err != nil {
			return err
		}
		if !alive {
			continue
		}
		if err := unix.Kill(p.PID, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("cannot kill process %d: %w", p.PID, err)
		}
	}
	return nil
}
