package main

import (
	"context"
	"errors"

	"pinfold/bwrap"
	"pinfold/guard"
	"pinfold/plan"
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
}

// guard asks the guard and translates its answer. Nothing has been started
// when it returns.
func (l *prepared) guard(ctx context.Context) (*guarded, error) {
	translate := l.lookAhead(ctx)
	grant, err := guard.GuardLaunch(ctx, l.policy, l.request, l.protected)
	if err != nil {
		return nil, err
	}
	l.outcome.enter(plan.PhasePreflight)
	launch, err := translate(grant)
	if err != nil {
		return nil, errors.Join(err, grant.Close())
	}
	return &guarded{grant: grant, launch: launch}, nil
}
