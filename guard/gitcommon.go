package guard

import (
	"context"
	"fmt"
	"path"
	"slices"
)

// A workspace that is a linked worktree, or a submodule whose superproject
// lies outside the grant, keeps its objects and refs in a git directory
// elsewhere. A grant of the workspace is meant to let git work there, so what
// a commit writes is granted with it, and nothing that git takes
// configuration or code from. The other git directory must say itself that
// the workspace is its own: a ".git" file alone could name anything.

// gitHome is the git directory of a workspace outside the grants.
type gitHome struct {
	common string   // where objects and refs are
	writes []string // what git writes to
	what   string   // "a linked worktree", "a submodule"
}

// bindGitCommon grants what git writes outside a granted workspace.
func (g *gate) bindGitCommon(ctx context.Context) error {
	w := g.places.workspace
	if w == nil || !g.lattice.writable(w.obj.path) {
		return nil
	}
	pointer := join(w.obj.path, ".git")
	o, err := g.fs.lookup(pointer)
	if err != nil {
		return err
	}
	o.release()
	switch {
	case o.missing():
		return g.noteEnclosing(w.obj.path)
	case o.kind != File || len(o.links) > 0:
		return nil
	}
	home, err := g.findGitHome(pointer)
	if err != nil || home == nil {
		return err
	}
	return g.grantGitHome(ctx, home)
}

// findGitHome follows a ".git" file and checks that the directory it names
// knows of it; nil where it doesn't, or where it may be written anyway.
func (g *gate) findGitHome(pointer string) (*gitHome, error) {
	dir, err := g.directory(pointer, "gitdir:")
	if err != nil || dir == "" || g.lattice.writable(dir) {
		return nil, err
	}
	if path.Base(parent(dir)) == "worktrees" {
		return g.linkedWorktree(pointer, dir)
	}
	return g.outerSubmodule(pointer, dir)
}

// directory is the canonical directory that a pointer file names, "" for
// none.
func (g *gate) directory(file, prefix string) (string, error) {
	p, err := g.pointer(file, prefix)
	if err != nil || p == "" {
		return "", err
	}
	at, kind, err := g.standsAt(p)
	if err != nil || kind != Dir {
		return "", err
	}
	return at, nil
}

func (g *gate) linkedWorktree(pointer, dir string) (*gitHome, error) {
	back, err := g.pointer(join(dir, "gitdir"), "")
	if err != nil || back == "" {
		return nil, err
	}
	at, _, err := g.standsAt(back)
	if err != nil {
		return nil, err
	}
	common, err := g.directory(join(dir, "commondir"), "")
	if err != nil || at != pointer || parent(dir) != join(common, "worktrees") {
		return nil, err
	}
	h := &gitHome{common: common, what: "a linked worktree", writes: []string{dir}}
	for _, name := range []string{"objects", "refs", "logs"} {
		h.writes = append(h.writes, join(common, name))
	}
	return h, nil
}

func (g *gate) outerSubmodule(pointer, dir string) (*gitHome, error) {
	r := &repositories{gate: g}
	c, ok, err := r.readConfig(join(dir, "config"))
	if err != nil || !ok || c.worktree == "" {
		return nil, err
	}
	p := c.worktree
	if !path.IsAbs(p) {
		p = dir + "/" + p
	}
	at, _, err := g.standsAt(p)
	if err != nil || at != parent(pointer) {
		return nil, err
	}
	return &gitHome{common: dir, what: "a submodule", writes: []string{dir}}, nil
}

// grantGitHome adds the grants, unless a rule or another user stands in the
// way: then git can't commit, and the note says what would let it.
func (g *gate) grantGitHome(ctx context.Context, h *gitHome) error {
	var list []*bound
	for _, p := range h.writes {
		b, err := g.literal("git of {workspace}", p, ClassBuiltin, verbWrite)
		if err != nil {
			return err
		}
		if b.obj.kind == Dir && b.obj.path == p {
			list = append(list, b)
		} else {
			if b.obj.kind == Missing && p == join(h.common, "logs") { // a bare repository's
				g.note(fmt.Sprintf("%s has no logs yet, which git makes for the first commit from a worktree: mkdir %q first", h.common, p))
			}
			b.obj.release()
		}
	}
	why, err := g.gitObstacle(ctx, h, list)
	if err != nil {
		return err
	}
	if why != "" {
		for _, b := range list {
			b.obj.release()
		}
		g.note(fmt.Sprintf("git can't commit: {workspace} is %s of %s, %s", h.what, h.common, why))
		return nil
	}
	g.writes = append(g.writes, list...)
	g.note(fmt.Sprintf("{workspace} is %s of %s: its objects, refs and logs may be written; to delete or pack refs, or change its configuration, add %q to write",
		h.what, h.common, h.common))
	return nil
}

// gitObstacle says what stands in the way of writing to a git directory.
func (g *gate) gitObstacle(ctx context.Context, h *gitHome, list []*bound) (string, error) {
	if v := g.lattice.at(h.common); !v.access.readable() {
		return fmt.Sprintf("which %s hides: add %q to write", v.rule, h.common), nil
	}
	var roots []walkRoot
	for _, b := range list {
		if why := g.standsInTheWay(b); why != nil {
			return fmt.Sprintf("where %s holds: add %q to write", why, h.common), nil
		}
		if err := g.checkTrusted(b); err != nil {
			return "which another user could exchange", nil //nolint:nilerr // a note instead of the refusal
		}
		roots = append(roots, walkRoot{path: b.obj.path, id: b.obj.id})
	}
	found, err := g.fs.walk(ctx, walkRequest{roots: roots, limit: g.limit(), uid: uint32(g.request.UID)})
	if err != nil {
		return "", g.walkRefusal(err)
	}
	l := ledger{}
	for _, n := range found.linked {
		l.add(n)
	}
	if open := l.open(); len(open) > 0 {
		return fmt.Sprintf("where %q has a further name (hard link): %s", open[0].first.path, cure(open[0].first.path)), nil
	}
	return "", nil
}

// standsInTheWay finds a rule that takes a path away, as closely as a rule
// can: a grant made here must not overrule it.
func (g *gate) standsInTheWay(b *bound) *bound {
	for _, r := range slices.Concat(g.protects, g.denies, g.readOnly, g.defaults, g.kernelViews) {
		if within(b.obj.path, r.obj.path) {
			return r
		}
	}
	return nil
}

// noteEnclosing says so where the workspace is part of a repository whose git
// directory can't be written.
func (g *gate) noteEnclosing(dir string) error {
	for dir != "/" {
		dir = parent(dir)
		if g.lattice.writable(dir) {
			continue
		}
		_, kind, err := g.standsAt(join(dir, ".git"))
		if err != nil {
			return err
		}
		if kind == Dir || kind == File {
			g.note(fmt.Sprintf("git can't commit: {workspace} is part of the repository at %s; add %q to write", dir, join(dir, ".git")))
			return nil
		}
	}
	return nil
}
