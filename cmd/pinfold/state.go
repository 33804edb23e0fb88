package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"pinfold/container/launch"
	"pinfold/policy"
)

// stateDir returns the state directory, made and checked.
func (p *program) stateDir() (string, error) {
	dir, err := p.statePath()
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", stateRefusal(dir, "cannot make the state directory", err)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", stateRefusal(dir, "cannot use the state directory", err)
	}
	if err := checkOwned(real); err != nil {
		return real, err
	}
	if named, err := p.namedState(); err != nil || named == "" {
		return real, err
	}
	home, err := homeDir("")
	if err == nil {
		home = canonical(home)
	}
	return real, checkState(real, home)
}

// namedState is the state directory that somebody named, or "".
func (p *program) namedState() (string, error) {
	if dir := cmp.Or(p.state, os.Getenv("PINFOLD_STATE")); dir != "" {
		return dir, nil
	}
	return p.stateSetting()
}

// statePath is where the state directory is to be, absolute.
func (p *program) statePath() (string, error) {
	dir, err := p.namedState()
	if err != nil {
		return "", err
	}
	if dir == "" {
		base, err := xdg("XDG_STATE_HOME", stateInHome)
		if err != nil {
			return "", err
		}
		dir = filepath.Join(base, "pinfold")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", stateRefusal(dir, "cannot use the state directory", err)
	}
	return abs, nil
}

// stateInHome is where state is kept where $XDG_STATE_HOME doesn't say.
const stateInHome = ".local/state"

// usualState is the state directory of a user who names none, which every
// launch keeps from its command, also where it isn't there yet: what a command
// puts there the operator's next launch would believe. "" is where this user,
// as whom the command runs, can't reach it.
func usualState() string {
	base, err := xdg("XDG_STATE_HOME", stateInHome)
	if err != nil {
		return ""
	}
	named := filepath.Join(base, "pinfold")
	dir, err := filepath.EvalSymlinks(named)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return named
	case err != nil:
		return ""
	}
	return dir
}

// stateSetting is the state directory of the operator's settings, or "".
func (p *program) stateSetting() (string, error) {
	if err := p.loadSettings(); err != nil || p.settings.State == nil {
		return "", err
	}
	home, err := homeDir("")
	if err != nil {
		return "", err
	}
	dir, err := policy.Expand(*p.settings.State, policy.Vars{Home: home})
	if err != nil {
		return "", stateRefusal(p.settings.State.Text, "cannot use the state directory", err)
	}
	return dir, nil
}

// xdg is a base directory: the variable's value where it is absolute (the
// specification says to ignore any other), else the default beneath home.
func xdg(variable, inHome string) (string, error) {
	if dir := os.Getenv(variable); filepath.IsAbs(dir) {
		return dir, nil
	}
	home, err := homeDir("")
	if err != nil {
		return "", err
	}
	return filepath.Join(home, inHome), nil
}

func noHome() *policy.Refusal {
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "no_home", Subject: "HOME",
		Why: "cannot find the home directory: $HOME is not set to an absolute path, and no account says more",
		Fix: "set HOME",
	}
}

// checkOwned refuses a state directory that somebody else could change: it
// holds the pins of trusted policies and the records that recovery believes.
func checkOwned(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return stateRefusal(dir, "cannot use the state directory", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return stateRefusal(dir, "cannot use the state directory", syscall.ENOTDIR)
	case !ok:
		return stateRefusal(dir, "cannot use the state directory", errors.New("its owner is unknown"))
	case int(st.Uid) != os.Geteuid():
		return stateRefusal(dir, "cannot use the state directory",
			fmt.Errorf("it belongs to user %d, not to you (%d)", st.Uid, os.Geteuid()))
	case info.Mode().Perm()&0o022 != 0:
		return stateRefusal(dir, "cannot use the state directory",
			fmt.Errorf("others may write to it (mode %04o)", info.Mode().Perm()))
	}
	return nil
}

// stateNames are what pinfold alone puts into a state directory; any version's
// first launch makes one of them. stateFiles are written under a name that
// starts so. What plainNames says others may have as well.
var (
	stateNames = []string{"records", "watches", "covers", "trust", "builds", launch.DirsName}                       //nolint:gochecknoglobals // a table
	stateFiles = []string{"bubblewrap.json", "denied-trees.json", "kernel-answers", "engine-", ".engine-", ".new-"} //nolint:gochecknoglobals // a table
	plainNames = []string{freshRun, freshWorkspace, freshTmp, "lost+found"}                                         //nolint:gochecknoglobals // a table
)

// checkState refuses the system's own directories and the home where they hold
// something else: they would be filled with pinfold's own, and be kept from every
// command. Other directories are whoever's that named them. One that can't be
// listed is refused when something is made in it.
func checkState(dir, home string) error {
	entries, err := os.ReadDir(dir)
	if err != nil || filepath.Dir(dir) != "/" && dir != home {
		return nil //nolint:nilerr // see above
	}
	var other string
	for _, e := range entries {
		name := e.Name()
		switch {
		case slices.Contains(stateNames, name), startsWithAny(name, stateFiles):
			return nil
		case !slices.Contains(plainNames, name):
			other = name
		}
	}
	if other == "" {
		return nil
	}
	return stateRefusal(dir, "cannot use the state directory", fmt.Errorf("it is no state directory of pinfold's, and holds other things, such as %q", other))
}

func startsWithAny(name string, starts []string) bool {
	return slices.ContainsFunc(starts, func(start string) bool { return strings.HasPrefix(name, start) })
}

// homeDir is the home that a policy's "~" means: the flag, $HOME, or what the
// account database says.
func homeDir(given string) (string, error) {
	if given != "" {
		return given, nil
	}
	if home := os.Getenv("HOME"); filepath.IsAbs(home) {
		return home, nil
	}
	if u, err := user.LookupId(strconv.Itoa(os.Geteuid())); err == nil && filepath.IsAbs(u.HomeDir) {
		return u.HomeDir, nil
	}
	return "", noHome()
}

func stateRefusal(dir, what string, err error) *policy.Refusal {
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "state_unusable", Subject: dir, Err: err,
		Why: fmt.Sprintf("%s %q: %v", what, dir, cause(err)),
		Fix: stateFix(err),
	}
}

func stateFix(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "make room on that file system, or name a directory on another one with --state DIR"
	case errors.Is(err, syscall.EROFS), errors.Is(err, fs.ErrPermission):
		return "name a directory that you may write with --state DIR or $PINFOLD_STATE"
	}
	return "name a new or an empty directory of your own, of mode 0700, with --state DIR or $PINFOLD_STATE"
}

// cause is the innermost part of a path error: the caller names the path.
func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
