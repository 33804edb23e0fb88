package plan

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// ShareDir keeps a directory of the state from being cleared while something
// is made in it: between the making of an entry and its own lock, the entry
// looks like a dead launch's. It is held for a few system calls.
func ShareDir(dir string) (unlock func(), err error) { return lockWhole(dir, syscall.LOCK_SH) }

// ClearDir waits until nothing is being made in a directory of the state.
func ClearDir(dir string) (unlock func(), err error) { return lockWhole(dir, syscall.LOCK_EX) }

func lockWhole(dir string, how int) (func(), error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot lock a directory: %w", err)
	}
	for {
		err = syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot lock %q: %w", dir, err), f.Close())
	}
	return func() { f.Close() }, nil
}

// TryDir takes the lock of one launch's own directory. Ok is false where the
// launch lives.
func TryDir(dir string) (unlock func(), ok bool, err error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, false, fmt.Errorf("cannot lock a directory: %w", err)
	}
	if err := flock(f, syscall.LOCK_EX); err != nil {
		closed := f.Close()
		if errors.Is(err, ErrHeld) {
			return nil, false, closed
		}
		return nil, false, errors.Join(fmt.Errorf("cannot lock %q: %w", dir, err), closed)
	}
	return func() { f.Close() }, true, nil
}
