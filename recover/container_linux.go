package recover

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/container"
	"pinfold/container/engine"
	"pinfold/container/launch"
	"pinfold/plan"
)

// askTime bounds one question to an engine, endingTime the wait for it to say
// that a container which can't be signalled any more has ended.
const (
	askTime    = 30 * time.Second
	endingTime = 5 * time.Second
)

// containerRun is the container of a recorded launch. What is told of it the
// pinned engine has said: one that doesn't answer, or another one in its
// place, leaves it unclear.
type containerRun struct {
	pinned plan.Container
	ref    container.Ref
	engine *engine.Engine
	state  container.State
	held   bool // by a supervisor
}

// isContainer reports whether a record is of the container tier.
func isContainer(s *plan.Stored) bool {
	return s.Container != nil || s.Plan.Backend == engine.Docker || s.Plan.Backend == engine.Podman
}

func refOf(c plan.Container) container.Ref {
	return container.Ref{Provider: c.Provider, Daemon: c.Daemon, Endpoint: c.Endpoint, ID: c.ID}
}

// askEngine asks the pinned engine for the pinned container.
func askEngine(ctx context.Context, s *plan.Stored, held bool) (*containerRun, error) {
	c := &containerRun{pinned: *s.Container, ref: refOf(*s.Container), held: held}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var err error
	if c.engine, err = engine.Connect(ctx, c.pinned.Provider, c.pinned.Endpoint); err != nil {
		return nil, err
	}
	c.engine.Remember(s.Plan.Paths.State)
	if c.state, err = c.engine.Inspect(ctx, c.ref); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// openContainer is the container of a record, if it is the pinned one.
func openContainer(s *plan.Stored, held bool) (*containerRun, error) {
	c, err := askEngine(context.Background(), s, held)
	if err != nil {
		return nil, unclear("whether the container of %q runs: %v", s.Path, err)
	}
	if err := c.isPinned(s); err != nil {
		c.close()
		return nil, unclear("container %.12s of %q: %v", c.ref.ID, s.Path, err)
	}
	return c, nil
}

// isPinned compares what the engine holds with what was pinned.
func (c *containerRun) isPinned(s *plan.Stored) error {
	st := c.state
	switch {
	case st.Status == container.Gone:
		return nil
	case !container.HasLabels(st.Labels, c.pinned.Labels):
		return errors.New("it doesn't carry the labels that were pinned")
	case st.Labels[container.LabelDigest] != s.Digest:
		return fmt.Errorf("it is of plan %s, not %s", st.Labels[container.LabelDigest], s.Digest)
	case st.ImageID != c.pinned.Image:
		return fmt.Errorf("it was made from image %s, not %s", st.ImageID, c.pinned.Image)
	case !st.StartedAt.IsZero() && st.StartedAt.Before(c.pinned.Pinned):
		return fmt.Errorf("it was started at %v, before it was pinned", st.StartedAt)
	}
	return nil
}

func (c *containerRun) close() {
	if c != nil && c.engine != nil {
		_ = c.engine.Close()
	}
}

// launchState is what the launch is doing.
func (c *containerRun) launchState(s *plan.Stored) State {
	switch {
	case s.Exit != nil:
		return Exited
	case c.state.Alive():
		return Running
	case c.held:
		return Running // its supervisor is just making, or ending it
	case c.state.Ended():
		return Exited
	case c.state.Status == container.Created:
		return NotStarted
	}
	return Lost
}

// orphaned: nobody supervises what is there.
func (c *containerRun) orphaned() bool { return !c.held && c.state.Status != container.Gone }

// neverStarted: it was made, and that is all.
func (c *containerRun) neverStarted() bool {
	return !c.state.Alive() && !c.state.Ended() && c.state.Status != container.Gone
}

// exit is how the container ended that nobody watched, by the engine's code
// and the stub's notes.
func (c *containerRun) exit(s *plan.Stored) plan.Exit {
	e := plan.Exit{Time: c.state.FinishedAt, Code: c.state.ExitCode, Reason: string(launch.Exited)}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	n, err := launch.ReadNotes(launch.DirsAt(c.pinned.Dirs))
	if err != nil {
		n.Termed = true // whether it was stopped can't be told, so nobody relies on its end
	}
	if c.state.KillSeen() {
		e.Code = noted(n)
	}
	if n.Signal != 0 && e.Code == launch.CodeSignal+n.Signal {
		e.Signal, e.Reason = n.Signal, string(launch.Signaled)
	}
	switch {
	case c.neverStarted() || s.Root == nil && !n.Ended:
		// The root is written before the command may run, so it never did,
		// whatever the stub made of a signal that came as it began: a Go program
		// that is pid 1 exits with 2 then.
		e.Code, e.Signal, e.Reason = launch.CodeRefused, 0, string(launch.Unavailable)
	case c.state.OOM:
		e.Reason = string(launch.OOM)
	case !n.Ended && e.Code == launch.CodeRefused:
		e.Reason = string(launch.Unavailable) // the stub's own end: the command never ran
	case !n.Ended && e.Code == launch.CodeSignal+int(unix.SIGKILL):
		e.Signal, e.Reason = int(unix.SIGKILL), string(launch.Signaled)
	}
	asked := lastStop(s)
	if asked != "" || n.Termed {
		e.Reason, e.Stop = string(launch.Interrupted), asked
	}
	return e
}

// noted is the code of a container whose first process was killed, or whose end
// the engine didn't see: by the stub's notes. Where it wrote none it was killed
// with the command.
func noted(n launch.Notes) int {
	switch {
	case n.Signal != 0:
		return launch.CodeSignal + n.Signal
	case n.Ended:
		return n.Code
	}
	return container.KilledCode
}

// lastStop is the last thing that the record says the command was sent to end
// it, by its supervisor or by somebody else.
func lastStop(s *plan.Stored) string {
	stop := ""
	for _, step := range s.Steps {
		if step.Kind == plan.StepStop && (step.Action == plan.StepAsked || step.Action == plan.StepSent) {
			stop = step.Detail
		}
	}
	return stop
}

// finish takes a container away that has ended or was never started, once that
// is in the record: afterwards nothing tells.
func (c *containerRun) finish(ctx context.Context, s *plan.Stored) (*plan.Exit, error) {
	exit := s.Exit
	if c.state.Ended() || c.neverStarted() {
		if exit == nil {
			e := c.exit(s)
			exit = &e
		}
		if err := plan.FinishRecord(s.Path, *exit); err != nil {
			return exit, err
		}
	}
	if err := c.engine.Remove(ctx, c.ref); err != nil {
		return exit, fmt.Errorf("cannot remove container %.12s: %w", c.ref.ID, err)
	}
	return exit, launch.DirsAt(c.pinned.Dirs).Remove()
}

// signalContainer sends a signal to the command itself, by its process where
// this user may, and else through the engine and the stub.
func (r *Run) signalContainer(sig unix.Signal) error {
	if r.command != nil {
		err := unix.PidfdSendSignal(r.command.pidfd, sig, nil, 0)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.ESRCH):
			return ErrEnded
		case !errors.Is(err, unix.EPERM):
			return fmt.Errorf("cannot send %s to the command: %w", unix.SignalName(sig), err)
		}
	}
	if !r.c.state.Alive() {
		return ErrEnded
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	err := r.c.engine.Signal(ctx, r.c.ref, sig)
	if err == nil {
		return nil
	}
	// It may have ended meanwhile, which an engine has its own words for: podman
	// says "stopped" while it tidies up, however long that takes.
	if now, ierr := r.c.engine.Inspect(ctx, r.c.ref); ierr == nil && !now.Alive() {
		return ErrEnded
	}
	// Or it is just ending, and the engine doesn't say so itself yet.
	ending, cancel := context.WithTimeout(ctx, endingTime)
	defer cancel()
	if _, werr := r.c.engine.Wait(ending, r.c.ref); werr == nil || errors.Is(errors.Join(err, werr), container.ErrNoContainer) {
		return ErrEnded
	}
	return err
}

// openContainer sees what the container of this launch is doing. While its
// supervisor has it and it doesn't run yet, the launch is just starting.
func (r *Run) openContainer(held bool) (err error) {
	if r.c, err = openContainer(r.stored, held); err != nil {
		return err
	}
	if err := r.holdContainer(); err != nil {
		return err
	}
	r.state = r.c.launchState(r.stored)
	if held && r.stored.Root == nil {
		r.state = Starting
	}
	if r.state == Exited && r.stored.Exit == nil {
		e := r.c.exit(r.stored)
		r.stored.Exit = &e
	}
	return nil
}

// holdContainer holds the processes of a container's launch.
func (r *Run) holdContainer() error {
	root := r.stored.Root
	if root == nil {
		return nil
	}
	same, err := isThisBoot(root)
	if err != nil || !same {
		return err
	}
	root.Supervisor, root.Exe = r.stored.Supervisor()
	anybody := func(*process, *plan.Root) (bool, error) { return true, nil }
	if r.supervisor, err = holdRecorded(root.Supervisor, root, isSupervisor); err != nil {
		return err
	}
	if r.init, err = holdRecorded(root.Init, root, anybody); err != nil {
		return err
	}
	r.command, err = holdRecorded(root.Command, root, anybody)
	return err
}

// settleContainer waits for the end: until the supervisor has recorded it, or,
// without one, until the engine says so.
func (r *Run) settleContainer(ctx context.Context) error {
	if r.c.held {
		if err := r.settle(ctx); err != nil || r.stored.Exit != nil {
			return err
		}
	}
	var err error
	if r.c.state.Alive() {
		r.c.state, err = r.c.engine.Wait(ctx, r.c.ref)
	}
	if errors.Is(err, container.ErrNoContainer) {
		r.c.state.Status, err = container.Gone, nil
	}
	if err != nil {
		return fmt.Errorf("cannot wait for the container of %q: %w", r.stored.Path, err)
	}
	if r.c.state.Ended() {
		e := r.c.exit(r.stored)
		r.stored.Exit = &e
	}
	return nil
}

// stopContainer ends the launch. Without a supervisor to see it the end is
// recorded here, and the container removed.
func (r *Run) stopContainer(ctx context.Context, grace time.Duration) (Stopped, error) {
	done := Stopped{Record: r.stored.Path, State: r.state, Exit: r.stored.Exit}
	if r.c.state.Alive() {
		if err := r.endContainer(ctx, grace, &done); err != nil {
			return done, err
		}
	}
	if r.c.held {
		gone, err := r.goneWithin(ctx, cleanTime)
		if err == nil && !gone {
			err = fmt.Errorf("cannot end the launch of %q: its supervisor, process %d, doesn't see the end", r.stored.Path, r.stored.Root.Supervisor.PID)
		}
		done.Exit = r.stored.Exit
		return done, err
	}
	exit, err := r.c.finish(ctx, r.stored)
	done.Exit = exit
	return done, err
}

// endContainer sends SIGTERM, after the grace SIGKILL, each written down
// before, and goes by what the engine says then.
func (r *Run) endContainer(ctx context.Context, grace time.Duration, done *Stopped) error {
	done.Sent = plan.StopTerm
	if err := plan.NoteStop(r.stored.Path, plan.StopTerm); err != nil {
		return err
	}
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGCONT} {
		if err := r.signalContainer(sig); err != nil && !errors.Is(err, ErrEnded) {
			return err
		}
	}
	waiting, cancel := context.WithTimeout(ctx, grace)
	state, err := r.c.engine.Wait(waiting, r.c.ref)
	expired := waiting.Err() != nil && ctx.Err() == nil
	cancel()
	switch {
	case errors.Is(err, container.ErrNoContainer):
	case err != nil && !expired:
		return err
	case expired:
		done.Sent = plan.StopKill
		if err := plan.NoteStop(r.stored.Path, plan.StopKill); err != nil {
			return err
		}
		if err := r.c.engine.Stop(ctx, r.c.ref, 0); err != nil {
			return err
		}
		killed, cancel := context.WithTimeout(ctx, deathTime)
		state, err = r.c.engine.Wait(killed, r.c.ref)
		cancel()
		if err != nil && !errors.Is(err, container.ErrNoContainer) {
			return fmt.Errorf("cannot end the launch of %q: %w", r.stored.Path, err)
		}
	}
	if r.c.state = state; err != nil { // the supervisor has removed it by now
		r.c.state.Status = container.Gone
	}
	stored, err := plan.ReadRecord(r.stored.Path)
	if err != nil {
		return err
	}
	r.stored = stored
	return nil
}
