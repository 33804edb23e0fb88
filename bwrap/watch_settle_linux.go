package bwrap

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// clearAsides settles what the run had moved out of the way when it was killed.
// What is written to still, or is too much, stays.
func (n watchNote) clearAsides(until time.Time, r *room) (removed []string, err error) {
	seen := map[string]bool{}
	for _, p := range n.Names {
		dir := filepath.Dir(p.Path)
		if seen[dir] {
			continue
		}
		seen[dir] = true
		paths, err := n.clearAsidesIn(dir, until, r)
		removed = append(removed, paths...)
		if err != nil {
			return removed, fmt.Errorf("cannot clear %q: %w", dir, err)
		}
	}
	return removed, nil
}

func (n watchNote) clearAsidesIn(dir string, until time.Time, r *room) (removed []string, err error) {
	fd, err := openDir(dir)
	if err != nil {
		return nil, ignoreLost(err)
	}
	defer unix.Close(fd)
	names, err := asidesIn(fd)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		var st unix.Stat_t
		if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil || !n.during(unix.TimespecToNsec(st.Ctim), until) {
			continue
		}
		a := &aside{path: filepath.Join(dir, name), where: dir, name: name}
		if err := a.finish(n.Keep, r); err != nil {
			return removed, err
		}
		if a.kept != a.at() {
			removed = append(removed, a.path)
		}
	}
	return removed, nil
}

// asidesIn lists them. A directory that its owner, or his command, has closed is
// opened up; in another user's that can't even be listed nothing was moved.
func asidesIn(dir int) ([]string, error) {
	list := func() (int, error) {
		return unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	fd, err := list()
	if errors.Is(err, unix.EACCES) {
		if err := openUp(dir); err != nil {
			return nil, ignoreForeign(err)
		}
		fd, err = list()
	}
	if err != nil {
		return nil, ignoreGone(err)
	}
	f := os.NewFile(uintptr(fd), ".")
	defer f.Close()
	all, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range all {
		if strings.HasPrefix(name, asidePrefix) {
			names = append(names, name)
		}
	}
	return names, nil
}

func ignoreForeign(err error) error {
	if errors.Is(err, unix.EPERM) {
		return nil
	}
	return ignoreGone(err)
}
