//go:build !linux

package bwrap

import (
	"context"
	"runtime"

	"pinfold/policy"
)

func probe(context.Context, Machine) (Machine, error) {
	return Machine{}, &policy.Refusal{
		Reason: policy.Unavailable, Code: "platform_unsupported", Subject: runtime.GOOS,
		Why: "cannot use bubblewrap: it runs on Linux only",
		Fix: "use the tier of this platform",
	}
}
