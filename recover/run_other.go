//go:build !linux && !darwin

package recover

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"pinfold/plan"
)

// Run is a recorded launch; there is none on this system.
type Run struct{}

func unsupported() error { return fmt.Errorf("%w: no launch runs on %s yet", ErrUnclear, runtime.GOOS) }

// Open can't tell anything here yet.
func Open(string) (*Run, error) { return nil, unsupported() }

// OpenStarted can't tell anything here yet.
func OpenStarted(context.Context, string) (*Run, error) { return nil, unsupported() }

// Close does nothing.
func (*Run) Close() {}

// State is none.
func (*Run) State() State { return "" }

// Exit is none.
func (*Run) Exit() *plan.Exit { return nil }

// StateDir is none.
func (*Run) StateDir() string { return "" }

// Info is empty.
func (*Run) Info() Info { return Info{} }

// Signal reaches nobody.
func (*Run) Signal(syscall.Signal) error { return unsupported() }

// Wait waits for nothing.
func (*Run) Wait(context.Context) (plan.Exit, error) { return plan.Exit{}, unsupported() }

// Stop stops nothing.
func (*Run) Stop(context.Context, time.Duration) (Stopped, error) { return Stopped{}, unsupported() }

func (*Run) lives(context.Context) (bool, error) { return false, unsupported() }
