package bwrap

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"pinfold/bwrap/cgroup"
	"pinfold/plan"
	"pinfold/policy"
	"pinfold/stub/wire"
	"pinfold/supervise"
)

// makeTree makes the cgroup that the sandbox will be moved into.
func (s *launcher) makeTree() (err error) {
	if err := s.launch.PlaceLimits(""); err != nil {
		return err
	}
	if s.launch.place == nil {
		return nil
	}
	s.tree, err = s.launch.place.Make(treeLimits(s.launch.Limits, s.setup.TTY&wire.TTYStdin != 0))
	return err
}

// confine moves bubblewrap, the sandbox's pid 1 and the stub into the cgroup,
// and takes hold of what else is bounded. All three are waiting, so nothing can
// be forked in between: whatever the
// stub becomes, and starts, is in there from its first instruction.
func (s *launcher) confine(ctx context.Context) error {
	if s.launch.Limits.Tmp > 0 {
		s.room.Hold(s.family.stub.pid)
	}
	if s.tree == nil {
		return nil
	}
	if err := s.tree.Attach(ctx, s.monitor.pid, s.family.init.pid, s.family.stub.pid); err != nil {
		return err
	}
	s.baseline = s.tree.Stats()
	return s.holdScope()
}

// blame names the limit that a launch has failed for: what it took to get
// ready was killed for want of memory.
func (s *launcher) blame(err error) error {
	if s.used.OOMKills == 0 {
		return err
	}
	return &policy.Refusal{
		Reason: policy.Denied, Code: "limit_too_low", Subject: "limits.memory", Rule: "limits.memory",
		Why: "cannot start the command: limits.memory is too little for it even to begin",
		Fix: "grant some megabytes", Err: err,
	}
}

// lowerLimits brings a limit down to what this process has itself: that is
// tighter, and holds anyway, and a process can't raise it (setrlimit(2)).
func lowerLimits(list []wire.Rlimit) ([]wire.Rlimit, error) {
	out := make([]wire.Rlimit, 0, len(list))
	for _, l := range list {
		var own unix.Rlimit
		if err := unix.Getrlimit(l.Resource, &own); err != nil {
			return nil, fmt.Errorf("cannot read resource limit %d: %w", l.Resource, err)
		}
		l.Soft, l.Hard = min(l.Soft, own.Max), min(l.Hard, own.Max)
		out = append(out, l)
	}
	return out, nil
}

// release ends the tree: whatever might still be in there, and the cgroup.
func (p *Process) release() error {
	p.full = p.room.Full()
	if p.tree == nil {
		return nil
	}
	p.used = p.stats()
	if err := p.tree.Remove(context.Background()); err != nil {
		return fmt.Errorf("cannot end the sandbox's cgroup: %w", err)
	}
	return nil
}

// ranOut reports whether the command, or its pid 1, was killed because the
// memory that it was granted had run out.
func (p *Process) ranOut(e Exit) bool {
	killed := e.Signal == unix.SIGKILL || e.Code == CodeSignal+int(unix.SIGKILL)
	return killed && p.used.OOMKills > 0 && p.reason == ""
}

// Usage is what the command and all that it started have used. Call it after
// [Process.Wait].
func (p *Process) Usage() plan.Usage {
	if p.tree == nil {
		return p.rusage()
	}
	u := plan.Usage{Source: "cgroup", CPUMS: float64(p.used.CPU) / 1e6, PeakMemory: p.used.PeakMemory}
	if p.used.CPU == 0 {
		u.CPUMS = p.rusage().CPUMS
	}
	// Below what it was when the stub still had its threads, the peak isn't
	// the command's.
	if p.used.PeakPIDs > p.baseline.PeakPIDs {
		u.Processes = p.used.PeakPIDs - ownProcesses
	}
	return u
}

// rusage is what bubblewrap and everything below it have used, getrusage(2).
func (p *Process) rusage() plan.Usage {
	u := plan.Usage{Source: "rusage"}
	for _, ru := range []*unix.Rusage{&p.monitor.rusage, &p.family.rusage} {
		u.CPUMS += float64(ru.Utime.Nano()+ru.Stime.Nano()) / 1e6
		u.PeakMemory = max(u.PeakMemory, ru.Maxrss<<10)
	}
	return u
}

// inherit makes the sandbox's pid 1 this process's child once bubblewrap has
// ended: bubblewrap doesn't wait for it, so nobody else gets to know what it
// and all below it have used. A kernel that won't leaves that out.
func inherit() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// Limits are the launch's limits, with how often each was hit. Call it after
// [Process.Wait].
func (p *Process) Limits() []plan.LimitResult {
	var out []plan.LimitResult
	for _, l := range p.launch.Plan.Limits {
		out = append(out, plan.LimitResult{Name: l.Name, Value: l.Value, Hits: p.hits(l.Name)})
	}
	return out
}

func (p *Process) hits(limit string) int64 {
	hit := func(yes bool) int64 {
		if yes {
			return 1
		}
		return 0
	}
	switch limit {
	case "cpus":
		return p.used.Throttled
	case "memory":
		return p.used.OOMKills
	case "pids":
		return p.used.PIDsMax
	case "tmp":
		return p.full
	case "file_size":
		return hit(p.exit.Signal == unix.SIGXFSZ || p.exit.Code == CodeSignal+int(unix.SIGXFSZ))
	case "timeout":
		return hit(p.exit.Reason == Timeout && !p.idle)
	case "idle_timeout":
		return hit(p.idle)
	}
	return 0
}

// treeState is what a Process keeps of its limits.
type treeState struct {
	tree           *cgroup.Tree
	used, baseline cgroup.Stats
	idle           bool    // the idle timeout ended the run
	output         *output // nil where silence doesn't matter
	held           *heldScope
	room           supervise.Room // where limits.tmp is given
	full           int64          // of its directories, at the end
}
