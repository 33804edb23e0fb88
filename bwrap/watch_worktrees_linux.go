package bwrap

import (
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"pinfold/guard"
)

// What git makes of a linked worktree's directory, "worktrees/NAME", is
// gitrepository-layout(5)'s: objects, configuration and hooks are those of the
// directory that its "commondir" names, and its own where it names none;
// "config.worktree" is configuration besides; in "modules" are the git
// directories of its submodules. `git worktree add` writes "../.." into the
// first, which is the repository itself, and makes none of the others unless
// the repository's configuration, which is guarded, asks for it.
const ownRepository = "../.."

// misleading are the names in a worktree's directory that are taken away by
// themselves, and shapes those that tell of more than a worktree.
func misleading() []string { return []string{"config.worktree", "modules"} }

// maxWorktrees bounds how many new worktrees are looked into.
const maxWorktrees = 1000

var errManyWorktrees = errors.New("it holds too many worktrees to look at")

// strays are what in a directory of linked worktrees would give git another
// configuration than the repository's. up is the directory, looked up.
func strays(up *victim, known []string) (list []*victim, err error) {
	n := 0
	err = eachIn(up.dir, up.name, func(dir int, name string) error {
		if slices.Contains(known, name) {
			return nil
		}
		if n++; n > maxWorktrees {
			return errManyWorktrees
		}
		found, err := straysIn(dir, filepath.Join(up.path, name))
		list = append(list, found...)
		return err
	})
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		err = nil // it has gone, which is news again
	}
	for _, v := range list {
		if v.out, v.outPath = -1, filepath.Dir(up.path); err == nil {
			v.out, err = unix.FcntlInt(uintptr(up.dir), unix.F_DUPFD_CLOEXEC, 0)
		}
	}
	return list, err
}

// straysIn looks at one worktree's directory, by its name in another.
func straysIn(dir int, path string) ([]*victim, error) {
	own, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	v, err := findIn(own, path)
	if v == nil {
		return nil, err
	}
	if v.mode&unix.S_IFMT != unix.S_IFDIR {
		return []*victim{v}, nil
	}
	in, err := openOwn(v.dir, v.name)
	if err != nil {
		v.close()
		return nil, ignoreLost(err)
	}
	defer unix.Close(in)
	bad, err := misled(in)
	if bad || err != nil {
		return []*victim{v}, err
	}
	v.close()
	return straysNamed(in, path)
}

func straysNamed(in int, path string) (list []*victim, err error) {
	for _, name := range misleading() {
		own, err := unix.FcntlInt(uintptr(in), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return list, err
		}
		v, err := findIn(own, filepath.Join(path, name))
		if v != nil {
			list = append(list, v)
		}
		if err != nil {
			return list, err
		}
	}
	return list, nil
}

// openOwn opens a directory, and opens it up first where its mode is in the
// way.
func openOwn(dir int, name string) (int, error) {
	fd, err := openBelow(dir, name)
	if errors.Is(err, unix.EACCES) {
		if err = openUpName(dir, name, 0o700); err == nil {
			fd, err = openBelow(dir, name)
		}
	}
	return fd, err
}

// misled reports whether a worktree's directory isn't one of the repository
// that it lies in: it names another one, or has objects of its own.
func misled(in int) (bool, error) {
	if _, err := statPoint(in, "objects"); !errors.Is(err, unix.ENOENT) {
		return err == nil, err
	}
	f, err := openRegular(in, "commondir")
	if errors.Is(err, unix.EACCES) {
		if err = openUpName(in, "commondir", 0o600); err == nil {
			f, err = openRegular(in, "commondir")
		}
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		return false, nil // it is being made
	case errors.Is(err, errNoFile), errors.Is(err, unix.ELOOP):
		return true, nil
	case err != nil:
		return false, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 64))
	return err != nil || len(text) > 0 && strings.TrimRight(string(text), "\r\n") != ownRepository, nil //nolint:nilerr // what can't be read isn't trusted
}

// grow has what is in the new subdirectories of a directory watched.
func (n *names) grow(w guard.Watch) {
	up, err := find(w.Path, w.Root)
	if up == nil || err != nil {
		return // nothing there to watch
	}
	defer up.close()
	_ = eachIn(up.dir, up.name, func(_ int, name string) error { // what has gone again needs no watch
		dir := filepath.Join(w.Path, name)
		if n.wanted[dir] != nil || n.grown >= maxWorktrees {
			return nil
		}
		n.grown++
		n.wanted[dir] = map[string]bool{"commondir": true, "objects": true}
		for _, bad := range misleading() {
			n.wanted[dir][bad] = true
		}
		n.order = append(n.order, dir)
		return nil
	})
}
