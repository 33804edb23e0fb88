package recover

import (
	"errors"
	"fmt"

	"pinfold/plan"
)

// proveExited: a root that ended with its exit recorded left nothing outside
// a boundary, if it really is gone, and if a parent that still lives runs
// nothing else meanwhile.
func (p *prover) proveExited() error {
	p.verdict.State, p.verdict.Exit = Exited, p.stored.Exit
	return p.steps([]step{{ProofGone, p.proveGone}, {ProofOnlyRoot, p.proveIdle}})
}

// proveIdle: a parent that lives has no child but the root that is just
// ending.
func (p *prover) proveIdle() error {
	parent, err := hold(p.claim.Parent)
	if p.claim.Parent <= 0 || errors.Is(err, errGone) {
		return nil
	}
	if err != nil {
		return err
	}
	p.parent = parent
	kids, err := living(parent)
	if err != nil {
		return err
	}
	defer closeAll(kids)
	for _, kid := range kids {
		if p.stored.Root == nil || !kid.is(p.stored.Root.Supervisor) {
			return refuted(ProofOnlyRoot, "the launch has ended, and its parent %d runs process %d now", parent.pid, kid.pid)
		}
	}
	return nil
}

// proveGone: nothing that the root file names runs. The supervisor itself may
// be on its way out, since it writes the exit last.
func (p *prover) proveGone() error {
	r := p.stored.Root
	if r == nil {
		return nil
	}
	for _, was := range []struct {
		name string
		plan.Process
	}{{"bubblewrap", r.Bwrap}, {"sandbox's pid 1", r.Init}, {"command", r.Command}} {
		runs, err := stillRuns(was.Process)
		if err != nil {
			return err
		}
		if runs {
			return &errRefuted{proof: ProofGone, why: fmt.Sprintf("the %s, process %d, still runs though an exit is recorded", was.name, was.PID), fix: p.stopHint()}
		}
	}
	return nil
}

func stillRuns(was plan.Process) (bool, error) {
	p, err := hold(was.PID)
	if errors.Is(err, errGone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer p.close()
	return p.is(was) && p.state != 'Z' && p.state != 'X' && p.alive() == nil, nil
}

// proveNotStarted: a parent that runs nothing has left nothing outside.
func (p *prover) proveNotStarted() error {
	p.verdict.State = NotStarted
	return p.steps([]step{{ProofParent, p.proveParent}, {ProofOnlyRoot, func() error {
		kids, err := living(p.parent)
		if err != nil {
			return err
		}
		defer closeAll(kids)
		if len(kids) == 0 {
			return nil
		}
		if holds, err := kids[0].holds(p.dir); err != nil || holds && len(kids) == 1 {
			return unclear("process %d is just starting this record's launch", kids[0].pid)
		}
		return refuted(ProofOnlyRoot, "the parent %d runs %d processes, and none is recorded", p.parent.pid, len(kids))
	}}})
}

// lost is a launch whose every process has gone without a recorded exit: its
// supervisor was killed, and took all with it. Nothing runs, so nothing is
// outside; but how it ended nobody knows.
func (p *prover) lost() error {
	for _, was := range []plan.Process{p.stored.Root.Supervisor, p.stored.Root.Bwrap, p.stored.Root.Init, p.stored.Root.Command} {
		runs, err := stillRuns(was)
		if err != nil {
			return err
		}
		if runs {
			return nil
		}
	}
	// The exit may have been written between the two looks.
	if again, err := plan.ReadRecord(p.claim.Record); err == nil && again.Exit != nil {
		return unclear("the launch is just ending")
	}
	p.verdict.State = Lost
	return &errRefuted{proof: ProofRoot, why: "the root has gone without recording an exit: it was killed", fix: "pinfold reap"}
}
