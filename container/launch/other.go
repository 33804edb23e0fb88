//go:build !linux

package launch

import (
	"context"
	"errors"

	"pinfold/container"
	"pinfold/plan"
)

// Process is a command that runs in its container.
type Process struct{}

// Start is for Linux: the hand-over needs an engine on the same kernel.
func Start(context.Context, Options) (*Process, error) {
	return nil, errors.New("cannot run a container: pinfold's container tier needs Linux")
}

// Ref names the container.
func (*Process) Ref() container.Ref { return container.Ref{} }

// Wait waits for the end.
func (*Process) Wait() (Exit, error) { return Exit{}, nil }

// Usage is what the container used.
func (*Process) Usage() plan.Usage { return plan.Usage{} }

// Limits are the limits in force.
func (*Process) Limits() []plan.LimitResult { return nil }

// Resume is for Linux.
func Resume(context.Context, Options, *plan.Stored) (*Process, error) {
	return nil, errors.New("cannot take over a container: pinfold's container tier needs Linux")
}
