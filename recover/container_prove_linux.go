package recover

import (
	"context"
	"errors"
	"fmt"

	"pinfold/container"
	"pinfold/plan"
)

// The proofs of the container tier.
const (
	// ProofEngine: the engine that answers is the one that made the container.
	ProofEngine Proof = "engine"
	// ProofContainer: it holds the pinned container, with the pinned labels, of
	// the pinned plan and image.
	ProofContainer Proof = "container"
	// ProofAlone: nobody has put another process into it.
	ProofAlone Proof = "alone"
)

// ProveLaunch is [Prove] for a record of either tier.
//
// What a supervisor and its container are, and what comes of that:
//
//	supervisor  container                    verdict
//	alive       the pinned one, running      adoptable
//	gone        ended                        adoptable, with its exit
//	gone        running                      not: stop it, or resume it
//	either      gone, on the same engine     not; it doesn't run (lost)
//	either      engine away, or another one  not, and nobody knows
func ProveLaunch(ctx context.Context, c Claim) (Verdict, error) {
	s, err := plan.ReadRecord(c.Record)
	if err != nil || !isContainer(s) {
		return Prove(ctx, c)
	}
	return patiently(ctx, func() (*prover, Verdict, error) {
		p := &containerProver{prover: newProver(ctx, c)}
		defer p.close()
		v, err := p.answer(p.proveContainer())
		return p.prover, v, err
	})
}

type containerProver struct {
	*prover
	c *containerRun
}

func (p *containerProver) close() {
	p.prover.close()
	p.c.close()
}

// proveContainer takes the steps that every record has, then those of its
// state.
func (p *containerProver) proveContainer() error {
	if err := p.steps([]step{{ProofRecord, p.proveRecord}, {ProofDigest, p.proveSameDigest}}); err != nil {
		return err
	}
	held, err := plan.IsHeld(p.stored.Path)
	if err != nil {
		return err
	}
	switch {
	case p.stored.Exit != nil:
		p.verdict.State, p.verdict.Exit = Exited, p.stored.Exit
		return p.take(step{ProofOnlyRoot, p.proveIdle})
	case p.stored.Container == nil && held:
		return unclear("the launch is just starting")
	case p.stored.Container == nil:
		return p.proveNotStarted()
	}
	if err := p.steps([]step{{ProofEngine, p.proveEngine(held)}, {ProofContainer, p.proveIsPinned}}); err != nil {
		return err
	}
	return p.proveState(held)
}

func (p *containerProver) proveSameDigest() error {
	if p.claim.Digest != "" && p.claim.Digest != p.stored.Digest {
		return refuted(ProofDigest, "the record's plan is %s, not %s", p.stored.Digest, p.claim.Digest)
	}
	return nil
}

// proveEngine: an engine that can't be asked, or another one in its place, is
// a no, for nobody knows what runs.
func (p *containerProver) proveEngine(held bool) func() error {
	return func() error {
		c, err := askEngine(p.ctx, p.stored, held)
		if err != nil {
			return &errRefuted{
				proof: ProofEngine, why: fmt.Sprintf("whether the container runs can't be told: %v", err),
				fix: "see to it that the engine at " + p.stored.Container.Endpoint + " answers, then ask again",
			}
		}
		p.c = c
		return nil
	}
}

func (p *containerProver) proveIsPinned() error {
	if p.c.state.Status == container.Gone {
		p.verdict.State = Lost
		return &errRefuted{proof: ProofContainer, why: "the engine has no such container any more, so it doesn't run", fix: "pinfold reap"}
	}
	if err := p.c.isPinned(p.stored); err != nil {
		return refuted(ProofContainer, "container %.12s: %v", p.c.ref.ID, err)
	}
	return nil
}

func (p *containerProver) proveState(held bool) error {
	switch {
	case !p.c.state.Alive() && !held && p.c.state.Ended():
		e := p.c.exit(p.stored)
		p.verdict.State, p.verdict.Exit = Exited, &e
		return p.take(step{ProofOnlyRoot, p.proveIdle})
	case !p.c.state.Alive() && !held:
		return p.proveNotStarted()
	case !p.c.state.Alive():
		return unclear("the launch is just ending")
	case p.stored.Root == nil && held:
		return unclear("the launch is just starting")
	case !held:
		p.verdict.State = Running
		return &errRefuted{
			proof: ProofHoldsRecord, why: "the container runs, and its supervisor has gone",
			fix: fmt.Sprintf("pinfold stop --record %s, or take it over with pinfold resume --record %s", p.claim.Record, p.claim.Record),
		}
	}
	p.stored.Root.Supervisor, p.stored.Root.Exe = p.stored.Supervisor()
	p.verdict.Root = p.stored.Root.Supervisor.PID
	p.verdict.State = Running
	err := p.steps([]step{
		{ProofBoot, p.proveBoot},
		{ProofParent, p.proveParent},
		{ProofOnlyRoot, p.proveOnlyRoot},
		{ProofRoot, p.proveRoot},
		{ProofExecutable, p.proveExecutable},
		{ProofHoldsRecord, p.proveHoldsRecord},
		{ProofInit, p.proveFirst},
	})
	if err == nil {
		err = p.proveInside()
	}
	if err != nil {
		return err
	}
	return p.stillThere()
}

// proveFirst: the process that the engine says is the container's first is the
// one that called the supervisor, and started after the pin.
func (p *containerProver) proveFirst() error {
	root := p.stored.Root
	if p.c.state.Pid != root.Init.PID {
		return refuted(ProofInit, "the container's first process is %d, and %d was recorded", p.c.state.Pid, root.Init.PID)
	}
	init, err := hold(root.Init.PID)
	if err != nil {
		return err
	}
	p.init = init
	switch {
	case !init.is(root.Init):
		return refuted(ProofInit, "process %d is another one by now", init.pid)
	case init.start < root.Pinned:
		return refuted(ProofAfterPin, "the container's first process is older than the plan")
	}
	p.verdict.Held = append(p.verdict.Held, ProofAfterPin)
	return nil
}

// answer turns what came of the steps into the verdict.
func (p *containerProver) answer(err error) (Verdict, error) {
	if no, isNo := errors.AsType[*errRefuted](err); isNo {
		p.verdict.Proof, p.verdict.Why, p.verdict.Fix = no.proof, no.why, no.fix
		return p.verdict, nil
	}
	if err != nil {
		if !errors.Is(err, ErrUnclear) {
			err = fmt.Errorf("%w: %w", ErrUnclear, err)
		}
		return Verdict{}, err
	}
	p.verdict.Adoptable = true
	return p.verdict, nil
}
