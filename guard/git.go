package guard

import (
	"fmt"
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
	// bares are the git directories that aren't called ".git".
	bares []string
}

func (g *gate) guardRepositories(found walkResult) error {
	r := &repositories{gate: g, names: policy.GuardedWorkspaceNames(), done: map[string]bool{}, bares: found.bares}
	slices.Sort(found.gits)
	slices.Sort(found.bares)
	if len(found.gits)+len(found.bares) > 0 {
		if err := r.hostConfigs(); err != nil {
			return err
		}
	}
	for _, p := range found.gits {
		if err := r.worktree(p); err != nil {
			return err
		}
	}
	for _, p := range found.bares {
		if err := r.gitDir(p, ""); err != nil {
			return err
		}
	}
	return nil
}

// shown is how messages call a path: beneath the workspace by its rest.
func (g *gate) shown(p string) string {
	if w := g.places.workspace; w != nil && beneath(p, w.obj.path) {
		return strings.TrimPrefix(p[len(w.obj.path):], "/")
	}
	return p
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
	if r.lattice.at(parent(p)).access != ReadWrite || r.excepted(text) {
		return nil
	}
	b := &bound{verb: verbReadOnly, usual: usual, rule: Rule{Class: ClassGuarded, Text: text, Source: "guard_workspace"}}
	if err := r.bind(b, p); err != nil {
		return err
	}
	r.guarded = append(r.guarded, b)
	return nil
}

// gitFile follows a ".git" that is a file to the git directory it names.
func (r *repositories) gitFile(p, top string) error {
	dir, err := r.pointer(p, "gitdir:")
	if err != nil || dir == "" {
		return err
	}
	o, err := r.fs.lookup(dir)
	if err != nil {
		return err
	}
	o.release()
	switch {
	case o.kind != Dir || r.lattice.at(o.path).access != ReadWrite:
		return nil
	case path.Base(parent(o.path)) == "worktrees":
		return r.linked(o.path, top)
	}
	return r.gitDir(o.path, top)
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
	for _, hooks := range r.shared {
		if err := r.hooks(hooks, common, top); err != nil {
			return err
		}
	}
	for _, file := range []string{join(common, "config"), join(dir, "config.worktree")} {
		if err := r.config(file, common, top, 0); err != nil {
			return err
		}
	}
	return nil
}

// pointer reads a file that holds one path, after a prefix. A relative path
// starts at the file's directory. "" means that there is no such file.
func (g *gate) pointer(p, prefix string) (string, error) {
	o, err := g.fs.lookup(p)
	if err != nil {
		return "", err
	}
	o.release()
	if o.kind != File {
		return "", nil
	}
	text, err := g.fs.read(o.path, maxGitFile)
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
	for _, hooks := range r.shared {
		if err := r.hooks(hooks, dir, top); err != nil {
			return err
		}
	}
	for _, name := range []string{"config", "config.worktree"} {
		if err := r.config(join(dir, name), dir, top, 0); err != nil {
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
	o, err := r.fs.lookup(file)
	if err != nil {
		return gitConfig{}, false, err
	}
	o.release()
	if o.kind != File {
		return gitConfig{}, false, nil
	}
	text, err := r.fs.read(o.path, maxGitFile)
	if err != nil {
		return gitConfig{}, false, err
	}
	return parseGitConfig(text), true, nil
}

// hostConfigs reads the user's and the machine's configuration, as git-config(1)
// lists them.
func (r *repositories) hostConfigs() error {
	files := []string{"/etc/gitconfig"}
	for _, home := range r.hostHomes() {
		files = append(files, join(home, ".gitconfig"), join(home, ".config/git/config"))
	}
	if xdg, _ := lookupEnv(r.request.Env, "XDG_CONFIG_HOME"); path.IsAbs(xdg) {
		files = append(files, path.Join(xdg, "git/config"))
	}
	for _, f := range files {
		if err := r.hostConfig(f, 0); err != nil {
			return err
		}
	}
	return nil
}

func (r *repositories) hostConfig(file string, depth int) error {
	c, ok, err := r.readConfig(file)
	if err != nil || !ok || depth > maxIncludes {
		return err
	}
	r.shared = append(r.shared, c.hooksPath...)
	for _, i := range c.includes {
		p := r.fromHome(i)
		if !path.IsAbs(p) {
			p = parent(file) + "/" + p
		}
		if err := r.keepNamed(p, File); err != nil {
			return err
		}
		if err := r.hostConfig(p, depth+1); err != nil {
			return err
		}
	}
	return nil
}

// fromHome expands a leading "~/" as git does.
func (r *repositories) fromHome(p string) string {
	if rest, ok := strings.CutPrefix(p, "~/"); ok {
		for _, home := range r.hostHomes() {
			return join(home, rest)
		}
	}
	return p
}

// hooks guards the directory that core.hooksPath names. It is relative to
// where hooks run: the top of the checkout, or a bare repository itself.
func (r *repositories) hooks(named, dir, top string) error {
	p := r.fromHome(named)
	if !path.IsAbs(p) {
		p = cmpOr(top, dir) + "/" + p
	}
	o, err := r.fs.lookup(p)
	if err != nil {
		return err
	}
	o.release()
	if within(dir, o.path) && r.lattice.at(o.path).access == ReadWrite {
		return refuse("hooks_path", o.path, Rule{Text: named, Source: "core.hooksPath of " + dir},
			fmt.Sprintf("cannot guard the hooks of %q: core.hooksPath names %q, which holds the whole repository", dir, o.path),
			"move the hooks into a directory of their own, and name that")
	}
	return r.keepNamed(p, Dir)
}

// keepNamed guards a path from a configuration file, where it can be written
// from inside.
func (r *repositories) keepNamed(p string, usual Kind) error {
	o, err := r.fs.lookup(p)
	if err != nil {
		return err
	}
	o.release()
	inside := r.lattice.at(o.path).access == ReadWrite
	for _, l := range o.links {
		inside = inside || r.lattice.at(parent(l.path)).access == ReadWrite
	}
	if !inside || r.done[path.Clean(p)] {
		return nil
	}
	r.done[path.Clean(p)] = true
	b := &bound{verb: verbReadOnly, usual: usual, rule: Rule{Class: ClassGuarded, Text: r.shown(o.path), Source: "guard_workspace"}}
	if r.excepted(b.rule.Text) {
		return nil
	}
	if err := r.bind(b, p); err != nil {
		return err
	}
	r.guarded = append(r.guarded, b)
	return nil
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
