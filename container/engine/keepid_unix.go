//go:build unix

package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// takeTurn waits until no other launch of this user has the podman at an
// endpoint look up a user's subordinate IDs, which it does in the process of
// its service and in a library that isn't made for two at once (libsubid): of
// creations at the same time some fail for want of IDs that are there, or get
// others. The lock is on the directory of podman's socket, which is the same
// for all launches, whatever their state directory. Where it can't be had, the
// creation goes on without; one that comes out wrong fails.
func takeTurn(ctx context.Context, endpoint string) (done func(), err error) {
	path, local := strings.CutPrefix(endpoint, "unix://")
	if !local {
		return func() {}, nil
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return func() {}, nil //nolint:nilerr // said above
	}
	tick := time.NewTicker(turnPause)
	defer tick.Stop()
	for end := time.Now().Add(turnTime); ; {
		err := syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if waits := errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR); !waits || time.Now().After(end) {
			return func() { dir.Close() }, nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), dir.Close())
		case <-tick.C:
		}
	}
}
