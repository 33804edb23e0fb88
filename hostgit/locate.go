package hostgit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"pinfold/policy"
	"pinfold/trusted"
)

// untrusted are the directories of which no program is run: where git is to
// work, and every work tree above, in which the same command may have written.
// A home, and what holds it, counts only if git is to work right there.
func untrusted(dir string, own, env []string) []string {
	var out []string
	for _, at := range places(dir, own, env) {
		at = resolved(at)
		nearest := true
		for up := at; ; up = filepath.Dir(up) {
			_, err := os.Lstat(filepath.Join(up, ".git"))
			isTop := err == nil
			home := lookup(env, "HOME")
			if (isTop || up == at) && (isTop && nearest || home == "" || !beneath(resolved(home), up)) {
				out = append(out, up)
			}
			if nearest = nearest && !isTop; up == filepath.Dir(up) {
				break
			}
		}
	}
	return out
}

// places are the directories that arguments and environment name for git to
// work in.
func places(dir string, own, env []string) []string {
	at := dir
	var out []string
	for i, o := range own {
		value := ""
		if i+1 < len(own) {
			value = own[i+1]
		}
		switch name, inline, joined := strings.Cut(o, "="); {
		case o == "-C":
			at = join(at, value)
		case name == "--git-dir" || name == "--work-tree":
			if joined {
				value = inline
			}
			out = append(out, join(at, value))
		}
	}
	for _, name := range []string{"GIT_DIR", "GIT_WORK_TREE"} {
		if value := lookup(env, name); value != "" {
			out = append(out, join(at, value))
		}
	}
	return append(out, dir, at)
}

func join(at, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(at, path)
}

// within tells of a path whether it lies in one of some trees.
func within(trees []string) func(string) bool {
	return func(p string) bool {
		return slices.ContainsFunc(trees, func(tree string) bool { return beneath(p, tree) })
	}
}

// locate finds git on the PATH, and what of the PATH git and what it starts
// may use: a pager or an editor of the tree's is no better than a git.
func locate(path string, trees []string) (git, rest string, err error) {
	forbidden := within(trees)
	var passed, kept []string
	for _, dir := range filepath.SplitList(path) {
		if usable(dir, forbidden) {
			kept = append(kept, dir)
		}
		if git != "" {
			continue
		}
		found, _, err := trusted.Program(filepath.Join(dir, "git"), forbidden)
		switch {
		case err == nil:
			git = found
		case !errors.Is(err, fs.ErrNotExist):
			passed = append(passed, err.Error())
		}
	}
	switch {
	case git != "":
		return git, strings.Join(kept, string(filepath.ListSeparator)), nil
	case len(passed) > 0:
		return "", "", refusal(policy.Unavailable, "git_untrusted", "git", "cannot use git: "+strings.Join(passed, "; "), "install it where only root can write, as the system's package does")
	}
	return "", "", refusal(policy.Unavailable, "git_missing", "git", "cannot find git on the PATH", "install git")
}

// usable reports whether an entry of the PATH is nobody's but the machine's or
// the operator's.
func usable(dir string, forbidden func(string) bool) bool {
	if !filepath.IsAbs(dir) {
		return false
	}
	_, info, err := trusted.Follow(dir, func(step string, info fs.FileInfo) error {
		everybody := info.IsDir() && info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0
		if forbidden(step) || everybody || trusted.Foreign(info) {
			return fs.ErrPermission
		}
		return nil
	})
	return err == nil && info.IsDir()
}
