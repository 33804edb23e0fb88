package lease

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// decide does something about all leases of a state directory, if there are
// any, while nobody else decides.
func decide(state string, do func(dir string, found map[string]bool) error) error {
	dir := filepath.Join(state, dirName)
	found, err := names(dir)
	if err != nil || len(found) == 0 {
		return err
	}
	unlock, err := lockAll(dir)
	if err != nil {
		return err
	}
	defer unlock()
	return do(dir, found)
}

// lockAll keeps other launches from deciding at the same time. It is held for
// a few system calls.
func lockAll(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make %q: %w", dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock %q: %w", dir, err)
	}
	if err := lock(f, unix.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = drop(f) }, nil
}

func lock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("cannot lock %q: %w", f.Name(), err)
		}
	}
}

// drop gives a file's lock up, and closes it. Closing alone isn't enough: a child
// of this process that is between fork and exec has the file as well.
func drop(f *os.File) error {
	return errors.Join(lock(f, unix.LOCK_UN), f.Close())
}
