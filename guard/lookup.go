package guard

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"pinfold/policy"
)

// A write grant, the workspace's among them, may lie at a guarded name or in
// one, or in a repository whose configuration names something in the grant.
// Walks look down from the grants; here the guard looks up.

// findTopGrants notes the policy's write grants that lie in no other one. What
// the launch grants by itself (its run directory, the git directory of its
// workspace) is none: the guard chose that.
func (g *gate) findTopGrants() {
	for _, w := range g.writes {
		if w.rule.Class == ClassPolicy && g.lattice.writable(w.obj.path) && g.lattice.above(w.obj.path).access != ReadWrite {
			g.topGrants = append(g.topGrants, w.obj.path)
		}
	}
}

// grantIn reports whether a write grant lies beneath a path.
func (g *gate) grantIn(p string) bool {
	return slices.ContainsFunc(g.topGrants, func(grant string) bool { return beneath(grant, p) })
}

// touched reports whether a name can be written from inside, or made, or a
// grant lies in it.
func (g *gate) touched(p string) bool {
	return g.lattice.writable(parent(p)) || g.lattice.writable(p) || g.grantIn(p)
}

// lookUp guards what the write grants lie at, and in.
func (r *repositories) lookUp() error {
	if err := r.unwalked(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, grant := range r.topGrants {
		if err := r.gitDirAbove(grant); err != nil {
			return err
		}
		for dir := grant; dir != "/"; {
			dir = parent(dir)
			if err := r.topNamesIn(dir, grant); err != nil {
				return err
			}
			if seen[dir] {
				continue
			}
			seen[dir] = true
			if err := r.enclosing(dir); err != nil && !errors.Is(err, fs.ErrPermission) {
				return err // what this user may not read, its git may not either
			}
		}
	}
	return nil
}

// unwalked guards what a repository names whose ".git" a rule keeps from being
// written: walks of the write grants leave it out.
func (r *repositories) unwalked() error {
	for _, b := range slices.Concat(r.readOnly, r.denies) {
		top := parent(b.obj.path)
		if path.Base(b.obj.path) != ".git" || !r.lattice.writable(top) {
			continue
		}
		if err := r.enclosing(top); err != nil && !errors.Is(err, fs.ErrPermission) {
			return err
		}
	}
	return nil
}

// topNamesIn guards the names of the top of a checkout in a directory above a
// grant, where the grant's own path has them: there need be no repository for
// editors and agents to obey them. They are called by their whole path, since
// the workspace may be a ".claude" itself.
func (r *repositories) topNamesIn(dir, grant string) error {
	start := len(join(dir, ""))
	for _, name := range r.names.Top {
		if name[0] != grant[start] {
			continue // most paths have no name that begins with a dot
		}
		p := join(dir, name)
		if !within(grant, p) && !within(p, grant) || r.launchOwn(p) {
			continue
		}
		if err := r.guardAt(p, r.homely(p), usualOf(name)); err != nil {
			return err
		}
	}
	return nil
}

// launchOwn reports whether a path lies in a directory of the launch's own: the
// run directory, a home that isn't one of the host's sessions, or an agent's
// directory that a variable of the command's names.
func (g *gate) launchOwn(p string) bool {
	var own []string
	for _, b := range []*bound{g.places.run, g.places.home} {
		if b != nil && !slices.Contains(g.sessionHomes(), b.obj.path) {
			own = append(own, b.obj.path)
		}
	}
	for _, a := range policy.GuardedWorkspaceNames().Agents {
		dir := g.commandsVariable(a.Variable)
		if at, _, err := g.standsAt(dir); err == nil && path.IsAbs(dir) {
			own = append(own, at)
		}
	}
	return slices.ContainsFunc(own, func(dir string) bool { return within(p, dir) })
}

// commandsVariable is a variable as the command gets it.
func (g *gate) commandsVariable(name string) string {
	if v, ok := lookupEnv(g.request.EnvAdd, name); ok {
		return v
	}
	if v, ok := g.policy.Env.Set[name]; ok {
		return v
	}
	return g.request.Variable(name)
}

// sessionHomes are the homes of the host's sessions, canonical.
func (g *gate) sessionHomes() []string {
	if g.canonicalHomes == nil {
		for _, home := range g.hostHomes() {
			if at, _, err := g.standsAt(home); err == nil {
				home = at
			}
			g.canonicalHomes = append(g.canonicalHomes, home)
		}
	}
	return g.canonicalHomes
}

// homely is how messages call a canonical path: in a home of the host's
// sessions from there on, so that one exception serves however it was found.
func (g *gate) homely(p string) string {
	for _, home := range g.sessionHomes() {
		if within(p, home) {
			return "~" + p[len(home):]
		}
	}
	return p
}

// gitDirAbove guards the git directory that a grant lies in, if it is at or in
// something that git takes code or configuration from; and a ".git" that is
// granted by itself.
func (r *repositories) gitDirAbove(grant string) error {
	if path.Base(grant) == ".git" {
		if _, kind, err := r.standsAt(grant); err != nil || kind == File {
			return errors.Join(err, r.keep(grant, File))
		}
	} else if !slices.ContainsFunc(strings.Split(grant, "/"), r.inGitDirs) {
		return nil
	}
	for dir := grant; dir != "/"; dir = parent(dir) {
		is, err := r.isGitDir(dir)
		if err != nil {
			return err
		}
		if is {
			return r.gitDir(dir, topOf(dir))
		}
	}
	return nil
}

// inGitDirs reports whether a git directory has something of that name which
// is guarded.
func (r *repositories) inGitDirs(name string) bool {
	return name == "modules" || name == "worktrees" || slices.Contains(r.names.GitDir, name)
}

// isGitDir recognises a git directory as a walk does.
func (r *repositories) isGitDir(dir string) (bool, error) {
	if path.Base(dir) == ".git" {
		return true, nil
	}
	for _, name := range []string{"HEAD", "objects", "refs"} {
		if _, kind, err := r.standsAt(join(dir, name)); err != nil || kind == Missing {
			return false, err
		}
	}
	return true, nil
}

// topOf is the checkout of a git directory, "" where its name tells none.
func topOf(dir string) string {
	if path.Base(dir) == ".git" {
		return parent(dir)
	}
	return ""
}

// enclosing guards what the repository at a directory above a grant names: its
// hooks may lie in the grant, a link at its top may lead there.
func (r *repositories) enclosing(top string) error {
	p := join(top, ".git")
	dir, kind, err := r.standsAt(p)
	if err == nil && kind == File {
		dir, err = r.directory(p, "gitdir:")
	}
	if err != nil || kind == Missing || dir == "" || r.launchOwn(top) {
		return err
	}
	if err := r.guard(top, r.shown(top), r.names.Top); err != nil {
		return err
	}
	common := dir
	if path.Base(parent(dir)) == "worktrees" {
		if common, err = r.directory(join(dir, "commondir"), ""); err != nil || common == "" {
			return err
		}
	}
	for _, name := range r.names.GitDir {
		if err := r.keepNamed(join(common, name), usualOf(name)); err != nil {
			return err
		}
	}
	return r.code(common, top, join(common, "config"), join(dir, "config.worktree"))
}
