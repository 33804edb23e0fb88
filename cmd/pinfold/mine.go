package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"pinfold/policy"
)

// loadOwn loads the operator's own policy, which nobody names: every file of
// it has to be the operator's.
func loadOwn(file string) (*policy.Policy, string, error) {
	if err := checkMine(file); err != nil {
		return nil, "", err
	}
	pol, abs, err := loadPolicy(file)
	if err != nil {
		return nil, "", err
	}
	for _, s := range pol.Sources {
		if err := checkMine(s.File); err != nil {
			return nil, "", err
		}
	}
	return pol, abs, nil
}

// checkMine refuses a file that is used without being named, and that somebody
// else could have written, or put in its place: by the file, by a directory
// above it, or by a link on the way to it.
func checkMine(file string) error {
	abs, err := filepath.Abs(file)
	if err != nil {
		return nil //nolint:nilerr // whoever reads it will say so
	}
	real, links, err := wayTo(abs)
	if err != nil {
		real = filepath.Dir(real) // there is no such file
	}
	seen := map[string]bool{real: true}
	for _, at := range append(links, real) {
		if why := whose(at); why != "" {
			return unsafeSettings(file, at, why)
		}
		for dir := filepath.Dir(at); !seen[dir]; dir = filepath.Dir(dir) {
			seen[dir] = true
			if why := whose(dir); why != "" {
				return unsafeSettings(file, dir, why)
			}
		}
	}
	return nil
}

// whose says why what stands at a path could be another user's work.
func whose(path string) string {
	info, err := os.Lstat(path)
	if err != nil {
		return "" // whoever reads it will say so
	}
	return foreign(info)
}

// foreign says why what an entry stands for could be another user's work. (A
// group may write it: in many systems a user's group is the user's alone.) In
// a sticky directory nobody replaces what others own.
func foreign(info fs.FileInfo) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	sticky := info.IsDir() && info.Mode()&fs.ModeSticky != 0
	switch {
	case !ok:
		return "its owner is unknown"
	case st.Uid != 0 && int(st.Uid) != os.Geteuid():
		return fmt.Sprintf("it belongs to user %d", st.Uid)
	case info.Mode()&fs.ModeSymlink == 0 && info.Mode().Perm()&0o002 != 0 && !sticky:
		return fmt.Sprintf("anybody may write to it (mode %04o)", info.Mode().Perm())
	}
	return ""
}

func unsafeSettings(file, at, why string) *policy.Refusal {
	if at != file {
		why = fmt.Sprintf("on the way to it lies %q: %s", at, why)
	}
	return &policy.Refusal{
		Reason: policy.Denied, Code: "settings_unsafe", Subject: file,
		Why: fmt.Sprintf("cannot use %q: %s", file, why),
		Fix: "make it yours and writable by nobody else (chmod o-w), after a look at what it says",
	}
}
