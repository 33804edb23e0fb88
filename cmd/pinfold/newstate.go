package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"pinfold/container/launch"
	"pinfold/policy"
)

// newState is what a launch makes of its state directory before the guard can
// say whether commands may write there: a run directory is needed for that,
// and it lies in it. A refusal for that reason takes it away again.
type newState struct {
	root *os.Root // the state directory, as it was made
	had  []string // what lay in it
	made []string // it and those above it that weren't there, the last first
}

// beforeGuard are the names that a launch may make in a state directory up to
// its refusal. What else appears there is somebody else's.
var beforeGuard = []string{freshRun, freshWorkspace, freshTmp, launch.DirsName, "bubblewrap.json", "denied-trees.json"} //nolint:gochecknoglobals // a table

// makeState is stateDir that can be undone.
func (p *program) makeState() (*newState, string, error) {
	path, err := p.statePath()
	if err != nil {
		return nil, "", err
	}
	n := &newState{}
	for at := path; ; at = filepath.Dir(at) {
		if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		n.made = append(n.made, at)
	}
	entries, unread := os.ReadDir(path)
	for _, e := range entries {
		n.had = append(n.had, e.Name())
	}
	state, err := p.stateDir()
	if err != nil {
		return nil, "", err
	}
	if unread == nil || errors.Is(unread, fs.ErrNotExist) { // else nobody knows what was there
		n.root, _ = os.OpenRoot(state) //nolint:errcheck // the launch says what is wrong with it
	}
	return n, state, nil
}

// end lets the state directory go; where why refuses it, nothing is left of
// what was made. Directories with something in them stay: it is another
// launch's. Nothing is removed by a path that a command could turn elsewhere.
func (n *newState) end(why error) error {
	if n == nil || n.root == nil {
		return nil
	}
	root := n.root
	n.root = nil
	if !refusesState(why) {
		return root.Close()
	}
	var errs []error
	for _, name := range beforeGuard {
		if slices.Contains(n.had, name) {
			continue
		}
		if name == launch.DirsName {
			errs = append(errs, removeStubs(root))
		}
		errs = append(errs, root.Remove(name))
	}
	errs = append(errs, root.Close())
	for _, dir := range n.made {
		if err := syscall.Rmdir(dir); err != nil { // what is no directory it leaves alone
			errs = append(errs, &fs.PathError{Op: "rmdir", Path: dir, Err: err})
		}
	}
	return errors.Join(slices.DeleteFunc(errs, stays)...)
}

// removeStubs removes the program that containers are handed.
func removeStubs(root *os.Root) error {
	found, err := fs.Glob(root.FS(), launch.DirsName+"/stub-*")
	errs := []error{err}
	for _, file := range found {
		errs = append(errs, root.Remove(file))
	}
	return errors.Join(errs...)
}

// stays are errors that say that nothing is left to do.
func stays(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST)
}

// refusesState reports whether a launch was refused for where its state lies.
func refusesState(err error) bool {
	var r *policy.Refusal
	return errors.As(err, &r) && (r.Code == "state_unsafe" || r.Code == "protected_exception")
}
