package persist

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// repository looks at a ".git". A new one is one finding; in one that was
// there, only what git runs is looked at. A file points to one elsewhere.
func (s *search) repository(path string, isDir, moved bool) {
	change := s.change(path)
	if moved {
		change = New
	}
	if change == New || change != "" && !isDir {
		s.found(Finding{path, change, repository, s.levelOf(path, 1)})
		return
	}
	if isDir {
		s.gitDir(path, 0)
	}
}

// bare looks at a directory with a HEAD, if it is a git directory.
func (s *search) bare(p place, in uint64) {
	if !isGit(p.dir) {
		return
	}
	if p.moved || s.change(p.dir) == New {
		s.found(Finding{p.dir, New, repository, s.levelOf(p.dir, 1)})
		return
	}
	s.gitDir(p.dir, 0)
}

// isGit reports whether git could take a directory for one of its own: the
// repository's, or a linked worktree's (gitrepository-layout(5)).
func isGit(dir string) bool {
	has := func(name string) bool { _, err := os.Lstat(filepath.Join(dir, name)); return err == nil }
	return has("HEAD") && (has("objects") || has("commondir"))
}

// dataOnly are the directories of a git directory that hold nothing which git
// runs, by the thousand.
func dataOnly(name string) bool {
	return slices.Contains([]string{"objects", "refs", "logs", "hooks", "lfs", "rr-cache", "reftable"}, name)
}

// maxGitDepth bounds how deep git directories are looked for in one another.
const maxGitDepth = 8

// gitDir looks at what git runs, or takes configuration from, in a git
// directory, and for others in it.
func (s *search) gitDir(dir string, depth int) {
	for _, name := range []string{"config", "config.worktree", "info/attributes", "commondir"} {
		s.judge(filepath.Join(dir, name), gitConfig, depthIn(name), false)
	}
	for _, name := range []string{"remotes", "branches"} { // gitrepository-layout(5): remotes as well
		for _, e := range s.list(filepath.Join(dir, name)) {
			s.judge(filepath.Join(dir, name, e.Name()), gitConfig, 3, false)
		}
	}
	for _, e := range s.list(filepath.Join(dir, "hooks")) {
		if !strings.HasSuffix(e.Name(), ".sample") { // samples aren't run
			s.judge(filepath.Join(dir, "hooks", e.Name()), gitHooks, 3, false)
		}
	}
	for _, name := range []string{"rebase-merge/git-rebase-todo", "rebase-apply/git-rebase-todo", "sequencer/todo"} {
		if file := filepath.Join(dir, name); runs(file) {
			s.judge(file, gitTodo, 3, false)
		}
	}
	if file := filepath.Join(dir, "rebase-merge/strategy"); !knownStrategy(file) {
		s.judge(file, gitTodo, 3, false)
	}
	if file := filepath.Join(dir, "sequencer/opts"); !plainOptions(file) {
		s.judge(file, gitTodo, 3, false)
	}
	s.gitIn(dir, depth)
}

func depthIn(name string) int { return strings.Count(name, "/") + 2 }

// gitIn looks for git directories in another one: those of submodules and of
// linked worktrees, and whatever is made to look like one.
func (s *search) gitIn(dir string, depth int) {
	if depth > maxGitDepth {
		s.Partial = true
		return
	}
	var in uint64
	if st, err := lookAt(dir); err == nil {
		in = st.ino
	}
	for _, e := range s.list(dir) {
		path := filepath.Join(dir, e.Name())
		switch {
		case s.late():
			return
		case e.Type()&os.ModeSymlink != 0 && e.Name() != "HEAD":
			s.judge(path, gitDirectory, 1, false)
		case !e.IsDir() || dataOnly(e.Name()):
		case !isGit(path):
			s.gitIn(path, depth+1)
		case s.change(path) == New || s.moved(path, in):
			s.found(Finding{path, New, gitDirectory, s.levelOf(path, 1)})
		default:
			s.gitDir(path, depth+1)
		}
	}
}

// list lists a directory, as far as there is one.
func (s *search) list(dir string) []os.DirEntry {
	entries, err := os.ReadDir(dir)
	if err != nil {
		s.unread(dir, err)
	}
	return entries
}

// runs reports whether a list of things to do has git run a command, as
// git-rebase(1) describes "exec". One that can't be read may have.
func runs(file string) bool {
	b, err := readRegular(file, maxRead)
	if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if word := strings.Fields(line); len(word) > 0 && (word[0] == "exec" || word[0] == "x") {
			return true
		}
	}
	return err != nil
}

// knownStrategy reports whether a rebase goes on with a merge strategy of
// git's own: any other is a program's name, and may be a path (git-merge(1),
// "--strategy").
func knownStrategy(file string) bool {
	b, err := readRegular(file, maxRead)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return isStrategy(strings.TrimSpace(string(b)))
}

func isStrategy(name string) bool {
	return slices.Contains([]string{"", "ort", "recursive", "resolve", "octopus", "ours", "subtree"}, name)
}

// plainOptions reports whether the options that a cherry-pick or a revert goes
// on with name no such program. They are written as configuration is, which
// has more than one way to write the same: all but git's own is taken for one.
func plainOptions(file string) bool {
	b, err := readRegular(file, maxRead)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	for line := range strings.Lines(string(b)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		switch {
		case strings.EqualFold(key, "strategy") && isStrategy(value):
		case strings.Contains(strings.ToLower(line), "strategy") && !strings.EqualFold(key, "strategy-option"):
			return false
		}
	}
	return true
}
