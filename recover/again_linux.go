package recover

import (
	"context"
	"slices"
	"time"

	"pinfold/plan"
)

// Prove tries the proofs in order. An error means that nobody can tell; a
// verdict that isn't adoptable names the first proof that failed.
//
// While the supervisor puts a cover back that the host has taken away, the
// mount table isn't the plan's, and for a moment a helper of the supervisor's
// stands beside bubblewrap. So what speaks against a launch then is looked at
// again until that is over.
func Prove(ctx context.Context, c Claim) (Verdict, error) {
	return patiently(ctx, func() (*prover, Verdict, error) {
		p := newProver(ctx, c)
		v, err := p.verdictOf()
		return p, v, err
	})
}

func newProver(ctx context.Context, c Claim) *prover {
	return &prover{ctx: ctx, claim: c, tree: newTree(), verdict: Verdict{Record: c.Record, Held: []Proof{}}}
}

// patiently looks until a verdict is the last.
func patiently(ctx context.Context, look func() (*prover, Verdict, error)) (Verdict, error) {
	steps := -1
	for began, looks := time.Now(), 1; ; looks++ {
		p, v, err := look()
		if err != nil || ctx.Err() != nil || !p.upset(v) {
			return v, err
		}
		if steps < 0 {
			steps = len(p.stored.Steps)
		}
		if looks >= leastLooks && time.Since(began) > p.patience(steps) {
			return v, nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookAgain):
		}
	}
}

// How long a proof that a mend upsets is tried: one that the journal doesn't
// tell of yet begins within milliseconds of the host's change, or in half a
// second where six programs want each processor, and one that has begun stops
// everything for two seconds at most, and waits 300 ms for the host.
const (
	lookAgain  = 5 * time.Millisecond
	leastLooks = 3
	mendSoon   = time.Second
	mendNow    = 3 * time.Second
)

// upset reports whether a mend may be all that speaks against the launch.
func (p *prover) upset(v Verdict) bool {
	return slices.Contains([]Proof{ProofBubblewrap, ProofMounts, ProofCanaries}, v.Proof)
}

// patience is how long it may take until a verdict is the last, where the
// journal had so many steps at first.
func (p *prover) patience(steps int) time.Duration {
	last := ""
	for _, s := range p.stored.Steps {
		if s.Action == plan.ActionMending || s.Action == plan.ActionSettled {
			last = s.Action
		}
	}
	if last == plan.ActionMending || len(p.stored.Steps) > steps {
		return mendNow
	}
	return mendSoon
}
