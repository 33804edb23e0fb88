package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"pinfold/policy"
)

// systemSettings lie beneath the operator's own.
const systemSettings = "/etc/pinfold/config.json"

// settingsDirs are where the next launch finds its settings and the operator's
// own policy, so that nothing inside may write there. They need not exist: the
// guard keeps their names from being made, and nothing appears in a home that
// no launch may write.
func settingsDirs() []string {
	dirs := []string{filepath.Dir(systemSettings)}
	base, err := xdg("XDG_CONFIG_HOME", ".config")
	if err != nil {
		return dirs
	}
	return append(dirs, filepath.Join(base, "pinfold"))
}

// loadSettings reads the operator's own settings and the machine's, once.
func (p *program) loadSettings() error {
	if p.settings != nil {
		return nil
	}
	all, err := readSettings(systemSettings)
	if err != nil {
		return err
	}
	// Without a home there are no settings of its owner's.
	if base, err := xdg("XDG_CONFIG_HOME", ".config"); err == nil {
		own, err := readSettings(filepath.Join(base, "pinfold", "config.json"))
		if err != nil {
			return err
		}
		all = own.Over(all)
	}
	p.settings = &all
	return nil
}

// readSettings reads one file; one that doesn't exist says nothing. One that
// can't be read might hold a ceiling, so it refuses.
func readSettings(file string) (policy.Config, error) {
	text, err := readBounded(file, maxFile)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return policy.Config{}, nil
	}
	if err := checkMine(file); err != nil {
		return policy.Config{}, err
	}
	var c policy.Config
	if err == nil {
		c, err = policy.ParseConfig(text, file)
	}
	if err == nil {
		return c, nil
	}
	return c, &policy.Refusal{
		Reason: policy.Denied, Code: "settings_invalid", Subject: file, Err: err,
		Why: fmt.Sprintf("cannot read the settings in %q: %v", file, cause(err)),
		Fix: "correct the file, or remove it; if HOME is another user's, set it",
	}
}

// checkMine refuses a file that is used without being named, and that somebody
// else could have written. (A group may write it: in many systems a user's
// group is the user's alone.)
func checkMine(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return nil //nolint:nilerr // whoever reads it will say so
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	why := ""
	switch {
	case !ok:
		why = "its owner is unknown"
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		why = fmt.Sprintf("it belongs to user %d", st.Uid)
	case info.Mode().Perm()&0o002 != 0:
		why = fmt.Sprintf("anybody may write to it (mode %04o)", info.Mode().Perm())
	}
	if why == "" {
		return nil
	}
	return &policy.Refusal{
		Reason: policy.Denied, Code: "settings_unsafe", Subject: file,
		Why: fmt.Sprintf("cannot use %q: %s", file, why),
		Fix: "make it yours and writable by nobody else, after a look at what it says",
	}
}
