package guard

import "slices"

// Git directories lie in others: a submodule's in "modules", a linked
// worktree's in "worktrees". git takes what it finds there for its own: a
// submodule that is about to be checked out isn't cloned where a directory of
// its name stands already (git-submodule(1), "update"), whatever that one's
// configuration has executed.

// modules keeps new git directories out of a git directory, and those that are
// there as writable as others. A clone writes configuration, so there is no
// telling a good one from a bad one.
func (r *repositories) modules(dir string) error {
	p := join(dir, "modules")
	if !r.touched(p) || r.excepted(r.shown(p)) {
		return nil
	}
	// A git directory that a link in it leads to is none the less one to work in.
	if _, err := r.bindOne(p, r.shown(p), Dir); err != nil {
		return err
	}
	for _, b := range r.bares {
		if !beneath(b, p) || !r.lattice.writable(b) || r.isReopened(b, b) {
			continue
		}
		g := &bound{verb: verbWrite, rule: Rule{Class: ClassBuiltin, Text: r.shown(b), Source: "guard_workspace"}}
		if err := r.bind(g, b); err != nil {
			return err
		}
		r.reopened = append(r.reopened, g)
	}
	return nil
}

// isReopened reports whether a path lies in a git directory that stays
// writable, and that one in another path.
func (g *gate) isReopened(p, in string) bool {
	return slices.ContainsFunc(g.reopened, func(b *bound) bool { return within(p, b.obj.path) && within(b.obj.path, in) })
}

// worktrees guards what ties linked worktrees to a repository, and has new
// ones looked at.
func (r *repositories) worktrees(dir string) error {
	at, kind, err := r.standsAt(dir)
	if err != nil {
		return err
	}
	var list []string
	if kind == Dir && at == dir {
		if list, err = r.fs.names(dir); err != nil {
			return err
		}
	}
	slices.Sort(list)
	for _, w := range list {
		for _, name := range r.names.GitWorktree {
			if err := r.keep(join(join(dir, w), name), usualOf(name)); err != nil {
				return err
			}
		}
		if err := r.modules(join(dir, w)); err != nil {
			return err
		}
	}
	r.grow(dir, list)
	return nil
}

// grow has a directory of linked worktrees watched, where one can be made.
func (r *repositories) grow(dir string, known []string) {
	v := r.lattice.at(dir)
	if v.access != ReadWrite || r.excepted(r.shown(dir)) {
		return
	}
	r.growing = append(r.growing, Watch{
		Path: dir, Root: v.at, Kind: Dir, Worktrees: true, Known: known,
		Rule:  Rule{Class: ClassGuarded, Text: r.shown(dir), Source: "guard_workspace"},
		Allow: Rule{Class: ClassGuarded, Text: r.shown(dir)}.Lift(),
	})
}
