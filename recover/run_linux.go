package recover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/plan"
)

// Run is a recorded launch, its processes held by pidfds. It needs no parent:
// its owner may have gone, and another may wait for it, signal and stop it.
// For adopting one, [Prove] is what counts.
type Run struct {
	stored *plan.Stored
	state  State

	supervisor, bwrap, init, command *process // nil: gone

	c *containerRun // nil in the process tier
}

// Open reads a record and holds what runs of its launch.
func Open(record string) (*Run, error) {
	r := &Run{}
	if err := r.open(record); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// open asks for the lock first: an exit that is written after that shows in
// what is read next.
func (r *Run) open(record string) error {
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
	if isContainer(r.stored) && r.stored.Container != nil && r.stored.Exit == nil {
		return r.openContainer(held)
	}
	if r.stored.Root != nil && !isContainer(r.stored) {
		if err := r.holdAll(); err != nil {
			return err
		}
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
	r.state = Running
	if r.supervisor == nil && r.bwrap == nil && r.init == nil {
		r.state = Lost
	}
	return nil
}

// Close lets go of the processes, which run on.
func (r *Run) Close() {
	for _, p := range []*process{r.supervisor, r.bwrap, r.init, r.command} {
		if p != nil {
			p.close()
		}
	}
	r.c.close()
}

// State is what the launch was doing when it was opened.
func (r *Run) State() State { return r.state }

// Exit is the recorded one, or nil.
func (r *Run) Exit() *plan.Exit { return r.stored.Exit }

// StateDir is the state directory that the launch used.
func (r *Run) StateDir() string { return r.stored.Plan.Paths.State }

// holdAll holds the processes of the root file that still are what they were.
func (r *Run) holdAll() error {
	root := r.stored.Root
	same, err := isThisBoot(root)
	if err != nil || !same {
		return err
	}
	for _, h := range []struct {
		to    **process
		was   plan.Process
		check func(*process, *plan.Root) (bool, error)
	}{
		{&r.supervisor, root.Supervisor, isSupervisor},
		{&r.bwrap, root.Bwrap, isOwners},
		{&r.init, root.Init, isInside},
		{&r.command, root.Command, isInside},
	} {
		if *h.to, err = holdRecorded(h.was, root, h.check); err != nil {
			return err
		}
	}
	return nil
}

func isThisBoot(root *plan.Root) (bool, error) {
	id, err := bootID()
	return id == root.BootID, err
}

// dyingTime is how long a process that can't be looked at gets to end: one that
// is ending has lost its program and its namespaces a moment before it is gone.
const dyingTime = 1000 // milliseconds

// holdRecorded holds a process if it is the recorded one, by its start time
// and by what else is known of it; nil means that it has gone.
func holdRecorded(was plan.Process, root *plan.Root, check func(*process, *plan.Root) (bool, error)) (*process, error) {
	p, err := hold(was.PID)
	if errors.Is(err, errGone) {
		return nil, nil //nolint:nilnil // documented: it has gone
	}
	if err != nil {
		return nil, err
	}
	ours := p.is(was) && p.state != 'Z' && p.state != 'X'
	if ours {
		ours, err = check(p, root)
	}
	if p.alive() != nil || err != nil && p.endsWithin(dyingTime) {
		ours, err = false, nil // what was read of it may be nonsense
	}
	if err != nil || !ours {
		p.close()
		return nil, err
	}
	return p, nil
}

func isOwners(p *process, root *plan.Root) (bool, error) {
	uid, err := p.uid()
	return uid == root.Owner, err
}

func isSupervisor(p *process, root *plan.Root) (bool, error) {
	exe, err := p.exe()
	return exe == root.Exe, err
}

// isInside: a process that took over the pid on the host isn't in the
// sandbox's pid namespace.
func isInside(p *process, root *plan.Root) (bool, error) {
	got, err := p.namespaces()
	return err == nil && got.of("pid") == root.Namespaces["pid"], err
}

// Info says what is known of the launch.
func (r *Run) Info() Info {
	s := r.stored
	i := Info{
		Record: s.Path, State: r.state, Digest: s.Digest, Owner: s.Plan.Owner,
		Workspace: r.real(s.Plan.Paths.Workspace), Command: s.Plan.Command, Exit: s.Exit,
	}
	if s.Root != nil {
		i.Started = s.Root.Started.UTC().Format(time.RFC3339)
	}
	if r.state != Running {
		return i
	}
	i.Root, i.PID = s.Root.Supervisor.PID, s.Root.Command.PID
	for _, m := range s.Plan.Mounts {
		m.Path = r.real(m.Path)
		i.Mounts = append(i.Mounts, m)
	}
	return i
}

// real replaces the names of directories that were made for the launch.
func (r *Run) real(path string) string {
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
func (r *Run) Signal(sig unix.Signal) error {
	switch {
	case r.state == Starting:
		return unclear("the command isn't running yet")
	case r.c != nil:
		return r.signalContainer(sig)
	case r.command == nil:
		return ErrEnded
	}
	target := r.command
	if r.stored.Root.Terminal {
		job, err := r.job()
		if err != nil {
			return err
		}
		defer job.close()
		target = job
	}
	err := unix.PidfdSendSignal(target.pidfd, sig, nil, 0)
	if errors.Is(err, unix.ESRCH) {
		return ErrEnded
	}
	if err != nil {
		return fmt.Errorf("cannot send %s to the command: %w", unix.SignalName(sig), err)
	}
	return nil
}

// job is the command of a terminal: the only child of the stub, which is the
// recorded process. While that is alive its children can't be another's.
func (r *Run) job() (*process, error) {
	kids, err := living(r.command)
	if r.command.alive() != nil {
		closeAll(kids)
		return nil, ErrEnded
	}
	if err != nil {
		return nil, err
	}
	if len(kids) != 1 {
		closeAll(kids)
		return nil, unclear("the command is just starting or ending")
	}
	return kids[0], nil
}

// Wait waits for the end of the launch and answers how it ended, without being
// its parent: the supervisor records it when nothing is left inside. The error
// is [ErrLost] when it was killed instead.
func (r *Run) Wait(ctx context.Context) (plan.Exit, error) {
	if r.state == Starting {
		return plan.Exit{}, unclear("the launch is just starting")
	}
	settle := r.settle
	if r.c != nil {
		settle = r.settleContainer
	}
	if err := settle(ctx); err != nil {
		return plan.Exit{}, err
	}
	if r.stored.Exit == nil {
		return plan.Exit{}, ErrLost
	}
	return *r.stored.Exit, nil
}

// bootID names this boot of the machine.
func bootID() (string, error) {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("cannot read the boot id: %w", err)
	}
	return strings.TrimSpace(string(b)), nil
}

// lives reports whether the launch goes on. A sandbox whose supervisor has
// gone is dying, and is waited for.
func (r *Run) lives(ctx context.Context) (bool, error) {
	if r.c != nil {
		return r.c.held || r.c.state.Alive(), nil
	}
	if r.state == Starting || r.state == Running && r.supervisor != nil && r.supervisor.alive() == nil {
		return true, nil
	}
	gone, err := r.goneWithin(ctx, settleTime)
	if err == nil && !gone {
		err = fmt.Errorf("the sandbox of %q has outlived its supervisor: pinfold stop --record %s", r.stored.Path, r.stored.Path)
	}
	return false, err
}
