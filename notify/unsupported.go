//go:build !linux

package notify

import "errors"

var errUnsupported = errors.New("system calls can be answered on Linux only")

// Engine answers the notifications of one sandbox.
type Engine struct{}

// New fails: there is no such thing here.
func New(Options) (*Engine, error) { return nil, errUnsupported }

// Run fails.
func (*Engine) Run() error { return errUnsupported }

// Close does nothing.
func (*Engine) Close() {}

// Available says why connections can't be answered on this machine.
func Available() error { return errUnsupported }

// CanTellSockets says why it can't be told which unix sockets are whose.
func CanTellSockets() error { return errUnsupported }
