package hostgit

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"pinfold/policy"
	"pinfold/trusted"
)

// step is something that a path passes, or, where nothing stands, its end.
type step struct {
	path  string
	plain bool // a directory
}

// way is what is passed on the way to something that git obeys.
type way struct {
	names string // what says so
	to    string
	from  string // the directory of what says so
	steps []step
	// anyDir: a directory on the way may be any.
	anyDir bool
}

// passing follows a path, to be judged when all work trees are known.
func (p *preparation) passing(names, to, from string, anyDir bool) error {
	w := way{names: names, to: to, from: from, anyDir: anyDir}
	_, _, err := trusted.Follow(to, func(at string, info fs.FileInfo) error {
		w.steps = append(w.steps, step{at, info.IsDir()})
		return nil
	})
	switch {
	case err != nil && missing(err):
		w.steps = append(w.steps, step{path: resolved(to)})
	case err != nil:
		return refusal(policy.Denied, "git_repository", to, fmt.Sprintf("cannot follow %q: %v", to, err), "look at "+names)
	}
	p.ways = append(p.ways, w)
	return nil
}

// strays refuses a way that git itself may change, since a checkout puts into
// a work tree what a commit says: then the next git that it starts obeys
// something else.
func (p *preparation) strays() error {
	holding := map[string]bool{}
	for _, top := range p.tops {
		if p.loose[top] {
			continue
		}
		for ; !holding[top]; top = filepath.Dir(top) {
			holding[top] = true
		}
	}
	for _, w := range p.ways {
		for _, s := range w.steps {
			if p.mayChange(s.path) && !(s.plain && (w.anyDir || holding[s.path] || beneath(w.from, s.path))) {
				return refusal(policy.Denied, "git_repository", w.to,
					fmt.Sprintf("cannot use %q, which %q leads to: it passes %q, which a commit may change", w.to, w.names, s.path),
					"look at "+w.names+", and have it lead past the work tree")
			}
		}
	}
	return nil
}

// mayChange reports whether a path lies in a work tree where a commit may put
// something: it can't put anything into a directory called .git, nor take away
// a directory that one is in.
func (p *preparation) mayChange(path string) bool {
	for top := path; ; top = filepath.Dir(top) {
		if _, ok := p.gitDirOf[top]; ok && !p.loose[top] {
			return top != path && !named(strings.TrimPrefix(path, top))
		}
		if top == filepath.Dir(top) {
			return false
		}
	}
}

// config follows the files of configuration of a git directory, and what else
// of it holds such.
func (p *preparation) config(dir string) error {
	for _, name := range []string{"config", "config.worktree", "modules", "worktrees"} {
		path := filepath.Join(dir, name)
		if err := p.passing(path, path, dir, false); err != nil {
			return err
		}
	}
	return nil
}

// outermost follows the .git of the work tree that git works in: git answers
// only where it ends.
func (p *preparation) outermost(top string) error {
	dotGit := filepath.Join(top, ".git")
	target, err := pointer(dotGit)
	if err != nil {
		return nil //nolint:nilerr // git was told where the repository is
	}
	return p.passing(dotGit, target, top, false)
}
