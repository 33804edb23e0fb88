package lease

import (
	"errors"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Leftovers are the mount points that killed runs left behind, which
// [Reclaim] would remove. It changes nothing.
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
	defer f.Close()
	l := &lease{f: f}
	free, err := l.free()
	if err != nil || !free || l.note.Path == "" || l.note.stands() != nil {
		return "", err
	}
	return l.note.Path, nil
}
