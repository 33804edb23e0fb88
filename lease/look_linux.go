package lease

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Look keeps the mount points of other runs where they are, from before the
// guard looks at the file system until the launch has its leases: what it saw
// would be gone otherwise, or another thing of that name.
type Look struct {
	state string
	f     *os.File // nil where no run has ever made a mount point
}

// BeginLook begins one. It makes nothing in a state directory that nobody has
// used yet: the guard may refuse to have one there.
func BeginLook(state string) (*Look, error) {
	l := &Look{state: state}
	if state == "" {
		return l, nil
	}
	f, err := openLook(filepath.Join(state, dirName))
	if errors.Is(err, os.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	if err := lock(f, unix.LOCK_SH); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	l.f = f
	return l, nil
}

func openLook(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lookName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot keep mount points in place: %w", err)
	}
	return f, nil
}

// Missed reports whether a run has begun to make mount points that this look
// didn't keep in place. It is to be made again then, once.
func (l *Look) Missed() bool {
	if l == nil || l.f != nil || l.state == "" {
		return false
	}
	_, err := os.Lstat(filepath.Join(l.state, dirName))
	return err == nil
}

// End ends it, and removes what others had to leave if nobody else looks. Call
// it once the launch has its leases, or has failed; again is no harm.
func (l *Look) End() error {
	if l == nil || l.f == nil {
		return nil
	}
	f := l.f
	l.f = nil
	defer f.Close()
	if err := lock(f, unix.LOCK_UN); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err
	}
	_, err = Reclaim(l.state)
	return err
}

// whileNobodyLooks does what removes mount points, under the lock of the
// caller's, or has those who look do it in the end. They give up their lock
// before they see whether they are asked to, so the second try misses nobody.
func whileNobodyLooks(dir string, do func() error) (done bool, err error) {
	f, err := openLook(dir)
	if err != nil {
		return false, err
	}
	defer drop(f) //nolint:errcheck // nothing is left to do about it
	err = lock(f, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		if _, err := f.WriteAt([]byte("1"), 0); err != nil {
			return false, fmt.Errorf("cannot have a mount point removed later: %w", err)
		}
		err = lock(f, unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) {
			return false, nil
		}
	}
	if err != nil {
		return false, err
	}
	if err := do(); err != nil {
		return true, err
	}
	if info, err := f.Stat(); err != nil || info.Size() == 0 {
		return true, err
	}
	return true, f.Truncate(0)
}

// isLooking reports whether somebody looks just now.
func isLooking(dir string) (bool, error) {
	f, err := openLook(dir)
	if err != nil {
		return false, err
	}
	defer drop(f) //nolint:errcheck // nothing is left to do about it
	err = lock(f, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}
