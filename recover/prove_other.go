//go:build !linux && !darwin

package recover

import (
	"context"
	"fmt"
	"runtime"
)

// Claim is what a caller wants proven.
type Claim struct {
	Record string
	Parent int
	Digest string
}

// Prove can't tell anything here yet.
func Prove(_ context.Context, _ Claim) (Verdict, error) {
	return Verdict{}, fmt.Errorf("%w: no proofs are built for %s", ErrUnclear, runtime.GOOS)
}
