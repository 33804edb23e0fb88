package main

import (
	"context"
	"os"

	"github.com/urfave/cli/v2"

	"pinfold/bwrap"
	"pinfold/guard"
	"pinfold/plan"
	"pinfold/policy"
)

// bwrapBoundary is bubblewrap's.
type bwrapBoundary struct {
	launch *bwrap.Launch
	ahead  *bwrap.Ahead
}

func (b bwrapBoundary) planned() *plan.Plan { return b.launch.Plan }

func (b bwrapBoundary) shell() (string, error) { return b.launch.Shell(), nil }

func (b bwrapBoundary) transparent() bool { return b.launch.Transparent }

func (b bwrapBoundary) start(ctx context.Context, r *oneRun) (running, error) {
	o := r.startOptions()
	o.Ahead = b.ahead
	p, err := bwrap.Start(ctx, b.launch, o)
	if err != nil {
		return nil, err
	}
	return p, nil
}

// lookAhead looks at the machine while the guard looks at the launch.
func (l *prepared) lookAhead(ctx context.Context) func(*guard.Grant) (boundary, error) {
	if l.policy.Tier == policy.TierContainer {
		return l.containerAhead(ctx)
	}
	ahead := bwrap.LookAhead(ctx, os.Getenv("PATH"), l.request.State)
	return func(grant *guard.Grant) (boundary, error) { return l.translate(ahead, grant) }
}

func (l *prepared) translate(ahead *bwrap.Ahead, grant *guard.Grant) (boundary, error) {
	machine, err := ahead.Machine(grant.Writable)
	if err != nil {
		return nil, err
	}
	machine.RunsMemfd = machine.RunsMemfd && !l.plainStub
	machine.Whole = machine.Whole || l.whole
	self, err := os.Executable()
	if err != nil {
		self = "" // ssh is left as it is
	}
	launch, err := bwrap.Translate(grant, machine, bwrap.Options{Umask: l.umask, Fresh: l.fresh, Pinfold: self})
	if err != nil {
		return nil, err
	}
	if err := launch.PlaceLimits(l.cgroup); err != nil {
		return nil, err
	}
	launch.WritePlan()
	return bwrapBoundary{launch, ahead}, nil
}

// systemFlags are the flags of this system alone.
type systemFlags struct{}

func (*systemFlags) flags() []cli.Flag { return nil }

// insideOf is for a program that is run inside its own boundary; there is none
// here, where the stub is another one.
func insideOf([]string) (code int, inside bool) { return 0, false }
