package lease

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Reclaim removes the mount points that killed runs left behind, and answers
// their paths. Call it before the guard looks at the file system; while others
// look, it is left to them.
func Reclaim(state string) (removed []string, err error) {
	err = decide(state, func(dir string, found map[string]bool) error {
		_, err := whileNobodyLooks(dir, func() (err error) {
			removed, err = reclaim(dir, found)
			return errors.Join(err, clearTenants(dir))
		})
		return err
	})
	return removed, err
}

// reclaim ends every lease that nobody holds, the deepest paths first: a
// directory goes only when it is empty.
func reclaim(dir string, found map[string]bool) (removed []string, err error) {
	var list []*lease
	var errs []error
	for name := range found {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|unix.O_NOFOLLOW, 0)
		if err != nil {
			errs = append(errs, ignoreGone(err))
			continue
		}
		l := &lease{f: f}
		if err := l.read(); err != nil {
			errs = append(errs, err, f.Close())
			continue
		}
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b *lease) int { return strings.Compare(b.note.Path, a.note.Path) })
	for _, l := range list {
		ok, err := l.end()
		if ok {
			removed = append(removed, l.note.Path)
		}
		errs = append(errs, err)
	}
	return removed, errors.Join(errs...)
}

// Leftovers are the mount points that killed runs left behind, which
// [Reclaim] would remove now. It changes nothing.
func Leftovers(state string) (paths []string, err error) {
	err = decide(state, func(dir string, found map[string]bool) error {
		if looking, err := isLooking(dir); err != nil || looking {
			return err
		}
		var errs []error
		for name := range found {
			path, err := leftover(filepath.Join(dir, name))
			if path != "" {
				paths = append(paths, path)
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
	slices.Sort(paths)
	return paths, err
}

// leftover is the mount point of a lease that nobody holds, if it still is
// what was made, or "".
func leftover(file string) (string, error) {
	f, err := os.OpenFile(file, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", ignoreGone(err)
	}
	defer drop(f) //nolint:errcheck // nothing is left to do about it
	l := &lease{f: f}
	free, err := l.free()
	if saysDamaged(err) {
		return "", nil // SetAside has it
	}
	if err != nil || !free || l.note.Path == "" || l.note.stands() != nil {
		return "", err
	}
	return l.note.Path, nil
}
