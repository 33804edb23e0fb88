package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"pinfold/policy"
)

// systemSettings lie beneath the operator's own.
const systemSettings = "/etc/pinfold/config.json"

// inConfig is where settings are where $XDG_CONFIG_HOME doesn't say.
const inConfig = ".config"

// settingsDirs are where the next launch finds its settings and the operator's
// own policy, so that nothing inside may write there: the machine's, and the
// operator's with and without $XDG_CONFIG_HOME. They need not exist: the guard
// keeps their names from being made, and nothing appears in a home that no
// launch may write.
func settingsDirs() []string {
	dirs := []string{filepath.Dir(systemSettings)}
	if base, err := xdg("XDG_CONFIG_HOME", inConfig); err == nil && !isDevice(base) {
		dirs = append(dirs, filepath.Join(base, "pinfold"))
	}
	if home, err := homeDir(""); err == nil {
		dirs = append(dirs, filepath.Join(home, inConfig, "pinfold"))
	}
	return slices.Compact(dirs)
}

// settingsFiles are what the next launch reads that may lie outside of those
// directories: what their links lead to (a repository of dotfiles, as stow
// makes them), and what the operator's policy extends. They count whatever
// policy this launch has.
func settingsFiles() []string {
	var files []string
	for _, dir := range settingsDirs() {
		files = append(files, linksIn(dir, "config.json", "policy.json")...)
		if own := filepath.Join(dir, "policy.json"); isFile(own) {
			files = append(files, policy.Files(own)...)
		}
	}
	return files
}

// isDevice reports what scripts name that want no settings: /dev/null.
func isDevice(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&fs.ModeDevice != 0
}

// isFile reports a regular file, by whatever link: reading another kind could
// take for ever.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// linksIn are the entries of a directory that are symbolic links. Those named
// are found in one that can't be listed, too.
func linksIn(dir string, named ...string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return slices.DeleteFunc(each(named, func(name string) string { return filepath.Join(dir, name) }), func(path string) bool {
			info, err := os.Lstat(path)
			return err != nil || info.Mode()&fs.ModeSymlink == 0
		})
	}
	var links []string
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 {
			links = append(links, filepath.Join(dir, e.Name()))
		}
	}
	return links
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
	p.ceilings = []policy.Config{all}
	// Without a home there are no settings of its owner's.
	if base, err := xdg("XDG_CONFIG_HOME", inConfig); err == nil {
		own, err := readSettings(filepath.Join(base, "pinfold", "config.json"))
		if err != nil {
			return err
		}
		p.ceilings = append(p.ceilings, own)
		all = own.Over(all)
	}
	p.settings = &all
	return nil
}

// limits are those of a launch by the operator's settings. A ceiling is asked
// for file by file first, so that a refusal can name the one to change.
func (p *program) limits(asked policy.Limits) (policy.Limits, error) {
	for _, c := range p.ceilings {
		if _, err := c.Apply(asked); err != nil {
			return policy.Limits{}, err
		}
	}
	return p.settings.Apply(asked)
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
