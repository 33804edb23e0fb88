package lease

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"pinfold/policy"
)

// damaged is a lease that can't be understood, as a file system leaves one
// after a power cut. Nobody can tell what it was for, so nothing is removed.
func damaged(file string, err error) error {
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "lease_damaged", Subject: file, Err: err,
		Why: fmt.Sprintf("cannot read the lease %q of a mount point: %v", file, err),
		Fix: "once nothing runs that needs it, run pinfold reap, which sets it aside",
	}
}

// SetAside renames the leases that are damaged and that nobody holds, so that
// their paths can have a lease again, and answers the files as they were. The
// mount points, which they don't name any more, stay. With dryRun it only
// answers them.
func SetAside(state string, dryRun bool) (done []string, err error) {
	err = decide(state, func(dir string, found map[string]bool) error {
		var errs []error
		for name := range found {
			file := filepath.Join(dir, name)
			is, err := isDamaged(file)
			if is && !dryRun {
				err = os.Rename(file, file+damageExt)
			}
			if is && err == nil {
				done = append(done, file)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	slices.Sort(done)
	return done, err
}

// isDamaged reports whether a lease is, and nobody holds it.
func isDamaged(file string) (bool, error) {
	f, err := os.OpenFile(file, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return false, ignoreGone(err)
	}
	defer drop(f) //nolint:errcheck // nothing is left to do about it
	err = lock(f, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	l := &lease{f: f}
	if err := l.read(); !saysDamaged(err) {
		return false, err
	}
	return true, nil
}

func saysDamaged(err error) bool {
	r, ok := errors.AsType[*policy.Refusal](err)
	return ok && r.Code == "lease_damaged"
}
