package main

import (
	"context"
	"errors"
	"os"

	"pinfold/bwrap"
	"pinfold/egress"
	"pinfold/guard"
	"pinfold/lease"
	"pinfold/plan"
	"pinfold/policy"
)

// boundary is a launch as a back end has translated it.
type boundary interface {
	planned() *plan.Plan
	// shell is the launch as a command line that a person can run.
	shell() (string, error)
	// transparent: connections are carried by name, with no proxy.
	transparent() bool
	start(ctx context.Context, r *oneRun) (running, error)
}

// running is a command inside its boundary.
type running interface {
	Wait() (bwrap.Exit, error)
	Usage() plan.Usage
	Limits() []plan.LimitResult
}

// guarded is a launch that the guard let through, translated.
type guarded struct {
	grant  *guard.Grant
	launch boundary
	parent *egress.Upstream // nil for none
	look   *lease.Look      // of who is about to launch; nil for others
}

// guard asks the guard and translates its answer. Nothing has been started
// when it returns.
func (l *prepared) guard(ctx context.Context) (*guarded, error) {
	translate := l.lookAhead(ctx)
	grant, err := guard.GuardLaunch(ctx, l.policy, l.request, l.protected)
	if err != nil {
		return nil, err
	}
	parent, err := parentProxy(grant.Network())
	if err != nil {
		return nil, errors.Join(err, grant.Close())
	}
	l.outcome.enter(plan.PhasePreflight)
	launch, err := translate(grant)
	if err != nil {
		return nil, errors.Join(err, grant.Close())
	}
	return &guarded{grant: grant, launch: launch, parent: parent}, nil
}

// parentProxy finds the parent proxy that a policy means, for a launch that
// has any use for one.
func parentProxy(n policy.Network) (*egress.Upstream, error) {
	if len(n.Allow) == 0 {
		return nil, nil
	}
	parent, err := egress.ParseUpstream(n.Upstream, os.Getenv)
	if err != nil {
		return nil, &policy.Refusal{
			Reason: policy.Unavailable, Code: "upstream_unusable", Err: err,
			Subject: "network.upstream", Rule: "network.upstream", Why: err.Error(),
			Fix: "correct what network.upstream says, or the variable or file that it names",
		}
	}
	return parent, nil
}
