package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"pinfold/policy"
)

// maxHops is how many symbolic links a path may cross, path_resolution(7).
const maxHops = 40

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
	at, err := filepath.Abs(file)
	seen := map[string]bool{}
	for range maxHops {
		if err != nil {
			return nil //nolint:nilerr // whoever reads it will say so
		}
		info, missing := os.Lstat(at)
		why := whoseWay(filepath.Dir(at), seen)
		if why == "" && missing == nil {
			why = foreign(info)
		}
		switch {
		case why != "":
			return unsafeSettings(file, why)
		case missing != nil || info.Mode()&fs.ModeSymlink == 0:
			return nil
		}
		at, err = linkTarget(at)
	}
	return nil // a circle
}

// linkTarget is what a link names, absolute.
func linkTarget(link string) (string, error) {
	target, err := os.Readlink(link)
	if err == nil && !filepath.IsAbs(target) {
		target = filepath.Join(filepath.Dir(link), target)
	}
	return target, err
}

// whoseWay says which directory on the way somebody else could turn elsewhere,
// "" for none.
func whoseWay(dir string, seen map[string]bool) string {
	ways := []string{dir}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		ways = append(ways, real)
	}
	for _, at := range ways {
		for ; !seen[at]; at = filepath.Dir(at) {
			seen[at] = true
			info, err := os.Lstat(at)
			if err != nil {
				continue
			}
			if why := foreign(info); why != "" {
				return fmt.Sprintf("in its path, %q: %s", at, why)
			}
		}
	}
	return ""
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

func unsafeSettings(file, why string) *policy.Refusal {
	return &policy.Refusal{
		Reason: policy.Denied, Code: "settings_unsafe", Subject: file,
		Why: fmt.Sprintf("cannot use %q: %s", file, why),
		Fix: "make it yours and writable by nobody else, after a look at what it says (chmod o-w)",
	}
}
