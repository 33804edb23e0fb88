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
func Reclaim(state string) ([]string, error) {
	dir := filepath.Join(state, dirName)
	found := names(dir)
	if len(found) == 0 {
		return nil, nil
	}
	unlock, err := lockAll(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	var removed []string
	_, err = whileNobodyLooks(dir, func() (err error) {
		removed, err = reclaim(dir, found)
		return errors.Join(err, clearTenants(dir))
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
func Leftovers(state string) ([]string, error) {
	dir := filepath.Join(state, dirName)
	found := names(dir)
	if len(found) == 0 {
		return nil, nil
	}
	unlock, err := lockAll(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if looking, err := isLooking(dir); err != nil || looking {
		return nil, err
	}
	var paths []string
	var errs []error
	for name := range found {
		path, err := leftover(filepath.Join(dir, name))
		if path != "" {
			paths = append(paths, path)
		}
		errs = append(errs, err)
	}
	slices.Sort(paths)
	return paths, errors.Join(errs...)
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
