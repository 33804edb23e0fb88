//go:build !darwin

package seatbelt

import (
	"errors"
	"runtime"

	"pinfold/policy"
)

// argumentsOf isn't known here: no launch of this back end is real.
func argumentsOf(int) ([]byte, error) { return nil, errors.ErrUnsupported }

// Probe refuses: only macOS has sandbox-exec.
func Probe() (Machine, error) {
	return Machine{}, &policy.Refusal{
		Reason: policy.Unavailable, Code: "platform_unsupported", Subject: runtime.GOOS,
		Why: "cannot use sandbox-exec: it runs on macOS only",
		Fix: "use the tier of this platform",
	}
}
