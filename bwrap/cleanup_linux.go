package bwrap

import (
	"errors"

	"golang.org/x/sys/unix"

	"pinfold/lease"
)

// Reclaim removes what runs left behind that were killed, mount points and
// what was made under guarded names, and answers the paths. Call it before the
// guard looks at the file system.
func Reclaim(state string) ([]string, error) {
	points, err := lease.Reclaim(state)
	taken, werr := reclaimWatches(state)
	return append(points, taken...), errors.Join(err, werr)
}

// Leftovers are the mount points that killed runs left behind, which
// [Reclaim] would remove. It changes nothing.
func Leftovers(state string) ([]string, error) { return lease.Leftovers(state) }

// SetAside sets leases aside that are damaged and that nobody holds, and
// answers their files; or only answers them.
func SetAside(state string, dryRun bool) ([]string, error) { return lease.SetAside(state, dryRun) }

// leaseExt is the end of the name of every lease.
const leaseExt = ".lease"

// clockSlack is how far file times, which come from the clock of the last
// tick, lie behind the clock proper: 10 ms at 100 ticks a second.
const clockSlack = 10e6

// ignoreGone drops the errors of a path that isn't there any more.
func ignoreGone(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	return err
}

func statPoint(dir int, base string) (*unix.Statx_t, error) {
	var st unix.Statx_t
	const want = unix.STATX_BASIC_STATS | unix.STATX_BTIME
	if err := unix.Statx(dir, base, unix.AT_SYMLINK_NOFOLLOW|unix.AT_STATX_DONT_SYNC, want, &st); err != nil {
		return nil, err
	}
	return &st, nil
}
