//go:build !linux

package bwrap

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/policy"
)

// Process is a command that runs inside its boundary.
type Process struct{}

// Start refuses: the process tier is Linux's.
func Start(context.Context, *Launch, StartOptions) (*Process, error) {
	return nil, errUnsupported()
}

// Pid is no process's.
func (*Process) Pid() int { return 0 }

// Done is never closed.
func (*Process) Done() <-chan struct{} { return nil }

// Wait refuses.
func (*Process) Wait() (Exit, error) {
	return Exit{Code: CodeRefused, Reason: Unavailable}, errUnsupported()
}

// Signal refuses.
func (*Process) Signal(unix.Signal) error { return errUnsupported() }

// Stop refuses.
func (*Process) Stop(time.Duration) error { return errUnsupported() }

// Kill does nothing.
func (*Process) Kill(Reason) {}

func errUnsupported() error {
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "wrong_system", Subject: runtime.GOOS,
		Why: fmt.Sprintf("cannot start the sandbox: the process tier of bubblewrap is for Linux, and this is %s", runtime.GOOS),
		Fix: "use the container tier",
	}
}
