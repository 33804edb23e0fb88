package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"pinfold/bwrap"
	"pinfold/container/launch"
	"pinfold/plan"
	"pinfold/policy"
)

// The kinds of directories that are made for one launch, and their place in
// the state directory.
const (
	freshRun       = "run"
	freshWorkspace = "workspace"
	freshTmp       = "tmp"
)

// freshAge is how old a directory must be before it can be a dead launch's: a
// new one isn't locked yet for a moment.
const freshAge = time.Minute

// makeFresh makes a directory for this launch alone. It stays locked until
// this process ends, however it does.
func (l *prepared) makeFresh(state, kind string) (string, error) {
	parent := filepath.Join(state, kind)
	err := os.MkdirAll(parent, 0o700)
	var dir string
	var lock *os.File
	if err == nil {
		dir, lock, err = makeLocked(parent)
	}
	if err != nil {
		return "", stateRefusal(state, "cannot make a directory in", err)
	}
	l.locks = append(l.locks, lock)
	l.fresh = append(l.fresh, bwrap.Fresh{Name: "{" + kind + "}", Path: dir})
	return dir, nil
}

// makeLocked makes a directory with its lock, and keeps a reaping out between
// the two.
func makeLocked(parent string) (dir string, lock *os.File, err error) {
	unlock, err := plan.ShareDir(parent)
	if err != nil {
		return "", nil, err
	}
	defer unlock()
	if dir, err = os.MkdirTemp(parent, ""); err != nil {
		return "", nil, err
	}
	lock, err = lockDir(dir)
	return dir, lock, err
}

// lockDir takes the lock of a directory, or fails at once.
func lockDir(dir string) (*os.File, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// removeFresh takes away what was made for this launch alone, and what a
// launch that was killed has left. why is the end of this launch.
func (l *prepared) removeFresh(why error) error {
	var errs []error
	for _, f := range l.fresh {
		errs = append(errs, plan.RemoveTree(f.Path))
	}
	for _, f := range l.locks {
		errs = append(errs, f.Close())
	}
	errs = append(errs, l.dirs.Remove())
	l.fresh, l.locks, l.dirs = nil, nil, launch.Dirs{}
	errs = append(errs, l.removeRecord())
	if l.request.State == "" || isCode(why, "state_unusable") {
		return errors.Join(append(errs, l.newState.end(why))...)
	}
	kept, err := launch.Kept(l.request.State)
	if err != nil {
		return errors.Join(append(errs, err, l.newState.end(why))...)
	}
	for _, kind := range []string{freshRun, freshWorkspace, freshTmp} {
		errs = append(errs, sweep(filepath.Join(l.request.State, kind), kept))
	}
	errs = append(errs, l.newState.end(why))
	return errors.Join(errs...)
}

// isCode reports whether a launch was refused with a code.
func isCode(why error, code string) bool {
	r, ok := errors.AsType[*policy.Refusal](why)
	return ok && r.Code == code
}

// sweep removes the directories beneath parent whose launch is no more, less
// those that a container has kept.
func sweep(parent string, kept []string) error {
	entries, err := os.ReadDir(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || time.Since(info.ModTime()) < freshAge {
			continue // another launch has removed it, or has just made it
		}
		dir := filepath.Join(parent, e.Name())
		if slices.Contains(kept, dir) {
			continue
		}
		lock, err := lockDir(dir)
		if err != nil {
			continue // in use
		}
		errs = append(errs, plan.RemoveTree(dir), lock.Close())
	}
	return errors.Join(errs...)
}
