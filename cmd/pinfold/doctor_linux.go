package main

import (
	"context"
	"os"

	"pinfold/doctor"
)

// systemChecks are the rows of this system.
func systemChecks() []doctor.Check { return doctor.Checks() }

// askMac asks nothing: this is no Mac.
func (p *program) askMac(*doctor.Host) {}

// prober asks this machine. Its launches are this very program's wrap, so
// that doctor can't say yes where wrap would refuse, nor the reverse.
func (p *program) prober(state string) doctor.Prober {
	return &doctor.Live{
		Path: os.Getenv("PATH"),
		Run: func(ctx context.Context, document string) error {
			return tryDocument(ctx, state, document)
		},
		RunFile: func(ctx context.Context, file string) error {
			return tryLaunch(ctx, state, "", "--policy", file)
		},
	}
}
