package main

import (
	"context"
	"errors"
	"os"

	"pinfold/bwrap"
	"pinfold/guard"
	"pinfold/plan"
)

// guarded is a launch that the guard let through, translated.
type guarded struct {
	grant  *guard.Grant
	launch *bwrap.Launch
}

// guard asks the guard and translates its answer. Nothing has been started,
// and nothing made, when it returns.
func (l *prepared) guard(ctx context.Context) (*guarded, error) {
	ahead := bwrap.LookAhead(ctx, os.Getenv("PATH"), l.request.State)
	grant, err := guard.GuardLaunch(ctx, l.policy, l.request, l.protected)
	if err != nil {
		return nil, err
	}
	l.outcome.enter(plan.PhasePreflight)
	launch, err := l.translate(ahead, grant)
	if err != nil {
		return nil, errors.Join(err, grant.Close())
	}
	return &guarded{grant: grant, launch: launch}, nil
}

func (l *prepared) translate(ahead *bwrap.Ahead, grant *guard.Grant) (*bwrap.Launch, error) {
	machine, err := ahead.Machine(grant.Writable)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		self = "" // ssh is left as it is
	}
	launch, err := bwrap.Translate(grant, machine, bwrap.Options{Umask: umask(), Fresh: l.fresh, Pinfold: self})
	if err != nil {
		return nil, err
	}
	return launch, launch.PlaceLimits(l.cgroup)
}
