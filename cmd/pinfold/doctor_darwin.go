package main

import (
	"context"

	"pinfold/doctor"
)

// systemChecks are the rows of this system.
func systemChecks() []doctor.Check { return doctor.MacChecks() }

// prober is nil: the rows of the other system aren't asked for.
func (p *program) prober(string) doctor.Prober { return nil }

// askMac has this Mac asked. Its launches are this very program's wrap.
func (p *program) askMac(h *doctor.Host) {
	h.Mac = &doctor.LiveMac{Run: func(ctx context.Context, document string) error {
		return tryDocument(ctx, p.state, document)
	}}
}
