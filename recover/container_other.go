//go:build !linux

package recover

import "context"

// ProveLaunch is [Prove]: there are no containers here.
func ProveLaunch(ctx context.Context, c Claim) (Verdict, error) { return Prove(ctx, c) }

// reapContainer has nothing to clear.
func (*Run) reapContainer(context.Context, bool) (string, error) { return "", nil }

func (*reaper) containers(context.Context) {}

// stranded has nothing to clear: there is no bubblewrap here.
func (*reaper) stranded() {}
