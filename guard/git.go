package guard

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"pinfold/policy"
)

// maxGitFile bounds what is read of a configuration or pointer file.
const maxGitFile = 1 << 20

// repositories guards what host programs run or obey in every repository that
// a walk found.
type repositories struct {
	*gate
	names policy.GuardedNames
	// done are the git directories and configuration files that were seen to.
	done map[string]bool
	// shared are the hooks paths of the user's and the machine's own
	// configuration, which hold in every repository.
	shared []string
	// templates are what new repositories are made from.
	templates []string
	// bares are the git directories that aren't called ".git".
	bares []string
}

func (g *gate) guardRepositories(found walkResult) error {
	r := &repositories{gate: g, names: policy.GuardedWorkspaceNames(), done: map[string]bool{}, bares: found.bares}
	slices.Sort(found.gits)
	slices.Sort(found.bares)
	if err := r.hostConfigs(); err != nil {
		return err
	}
	for _, p := range found.gits {
		if err := r.worktree(p); err != nil {
			return err
		}
	}
	if err := r.lookUp(); err != nil {
		return err
	}
	for _, p := range found.bares {
		if err := r.gitDir(p, topOf(p)); err != nil {
			return err
		}
	}
	return nil
}

// shown is how messages call a canonical path: beneath the workspace by its
// rest.
func (g *gate) shown(p string) string {
	if w := g.places.workspace; w != nil && beneath(p, w.obj.path) {
		return strings.TrimPrefix(p[len(w.obj.path):], "/")
	}
	return g.homely(p)
}

// worktree guards the checkout whose ".git" stands at p.
func (r *repositories) worktree(p string) error {
	top := parent(p)
	if w := r.places.workspace; w == nil || top != w.obj.path { // that one has been seen to
		if err := r.guard(top, r.shown(top), r.names.Top); err != nil {
			return err
		}
	}
	o, err := r.fs.lookup(p)
	if err != nil {
		return err
	}
	o.release()
	if len(o.links) == 0 && o.kind == Dir {
		return r.gitDir(p, top)
	}
	// A file, or a link, which checkReaim refuses.
	if err := r.keep(p, File); err != nil {
		return err
	}
	if o.kind == File {
		return r.gitFile(p, top)
	}
	return nil
}

// keep makes one path read-only.
func (r *repositories) keep(p string, usual Kind) error {
	text := r.shown(p)
	switch {
	case r.excepted(text):
		return nil
	case !r.touched(p):
		return r.followAt(p, text)
	}
	_, err := r.bindGuarded(p, text, usual)
	return err
}

// gitFile follows a ".git" that is a file to the git directory it names.
func (r *repositories) gitFile(p, top string) error {
	dir, err := r.pointer(p, "gitdir:")
	if err != nil || dir == "" {
		return err
	}
	at, kind, err := r.standsAt(dir)
	if err != nil || kind != Dir {
		return err
	}
	if path.Base(parent(at)) == "worktrees" {
		err = r.linked(at, top)
	} else {
		err = r.gitDir(at, top)
	}
	if errors.Is(err, fs.ErrPermission) && !r.lattice.writable(at) {
		return nil // what this user may not read, its git may not either
	}
	return err
}

// linked guards the administrative directory of a linked worktree, and the
// hooks that its repository's configuration names for it.
func (r *repositories) linked(dir, top string) error {
	for _, name := range r.names.GitWorktree {
		if err := r.keep(join(dir, name), usualOf(name)); err != nil {
			return err
		}
	}
	if err := r.modules(dir); err != nil {
		return err
	}
	common, err := r.directory(join(dir, "commondir"), "")
	if err != nil || common == "" {
		return err
	}
	for _, name := range r.names.GitDir {
		if err := r.keep(join(common, name), usualOf(name)); err != nil {
			return err
		}
	}
	return r.code(common, top, join(common, "config"), join(dir, "config.worktree"))
}

// pointer reads a file that holds one path, after a prefix. A relative path
// starts at the file's directory. "" means that there is no such file.
func (g *gate) pointer(p, prefix string) (string, error) {
	at, kind, err := g.standsAt(p)
	if err != nil || kind != File {
		return "", err
	}
	text, err := g.fs.read(at, maxGitFile)
	if err != nil {
		return "", err
	}
	rest, ok := strings.CutPrefix(strings.TrimRight(string(text), "\r\n"), prefix)
	rest = strings.TrimLeft(rest, " ")
	if !ok || rest == "" || strings.ContainsRune(rest, 0) {
		return "", nil
	}
	if path.IsAbs(rest) {
		return rest, nil
	}
	return parent(p) + "/" + rest, nil
}

// gitDir guards a git directory; top is its checkout, "" for a bare one.
func (r *repositories) gitDir(dir, top string) error {
	if r.done[dir] {
		return nil
	}
	r.done[dir] = true
	for _, name := range r.names.GitDir {
		if err := r.keep(join(dir, name), usualOf(name)); err != nil {
			return err
		}
	}
	if err := r.modules(dir); err != nil {
		return err
	}
	if err := r.worktrees(join(dir, "worktrees")); err != nil {
		return err
	}
	return r.code(dir, top, join(dir, "config"), join(dir, "config.worktree"))
}

// code guards what the configuration of a git directory names, which is in
// these files, the user's and the machine's.
func (r *repositories) code(dir, top string, files ...string) error {
	for _, hooks := range r.shared {
		if err := r.hooks(hooks, dir, top); err != nil {
			return err
		}
	}
	for _, file := range files {
		if err := r.config(file, dir, top, 0); err != nil {
			return err
		}
	}
	return nil
}

// maxIncludes is how deep git follows includes.
const maxIncludes = 10

// config guards what a configuration file takes in: the hooks it names, and
// the files it includes.
func (r *repositories) config(file, dir, top string, depth int) error {
	c, ok, err := r.readConfig(file)
	if err != nil || !ok || depth > maxIncludes {
		return err
	}
	for _, h := range c.hooksPath {
		if err := r.hooks(h, dir, top); err != nil {
			return err
		}
	}
	for _, i := range c.includes {
		p := r.fromHome(i)
		if !path.IsAbs(p) {
			p = parent(file) + "/" + p
		}
		if err := r.keepNamed(p, File); err != nil {
			return err
		}
		if err := r.config(p, dir, top, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (r *repositories) readConfig(file string) (gitConfig, bool, error) {
	at, kind, err := r.standsAt(file)
	if err != nil || kind != File {
		return gitConfig{}, false, err
	}
	text, err := r.fs.read(at, maxGitFile)
	if err != nil {
		return gitConfig{}, false, err
	}
	return parseGitConfig(text), true, nil
}

// hooks guards the directory that core.hooksPath names. It is relative to
// where hooks run: the top of the checkout, or a bare repository itself.
func (r *repositories) hooks(named, dir, top string) error {
	p := r.fromHome(named)
	if !path.IsAbs(p) {
		p = cmpOr(top, dir) + "/" + p
	}
	at, _, err := r.standsAt(p)
	if err != nil {
		return err
	}
	if within(dir, at) && r.lattice.writable(at) {
		return refuse("hooks_path", at, Rule{Text: named, Source: "core.hooksPath of " + dir},
			fmt.Sprintf("cannot guard the hooks of %q: core.hooksPath names %q, which holds the whole repository", dir, at),
			"move the hooks into a directory of their own, and name that")
	}
	if within(cmpOr(top, dir), at) {
		return r.keepNamed(p, Dir) // what lies beneath are the checkout's own files
	}
	return r.keepHooks(p, at, Dir)
}

// keepHooks guards a directory of hooks, or what else belongs to git as a whole,
// at its canonical path too.
func (r *repositories) keepHooks(p, canonical string, usual Kind) error {
	if r.grantIn(canonical) {
		return r.guardAt(canonical, r.shown(canonical), usual)
	}
	return r.keepNamed(p, usual)
}

// keepNamed guards a path from a configuration file, where it can be written
// from inside.
func (r *repositories) keepNamed(p string, usual Kind) error {
	o, err := r.fs.lookup(p)
	if err != nil {
		return err
	}
	o.release()
	inside := r.lattice.writable(o.path)
	for _, l := range o.links {
		inside = inside || r.lattice.writable(parent(l.path))
	}
	text := r.shown(o.path)
	switch {
	case r.excepted(text) || r.done[path.Clean(p)]:
		return nil
	case !inside:
		return r.followAt(p, text)
	}
	r.done[path.Clean(p)] = true
	_, err = r.bindGuarded(p, text, usual)
	return err
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
