package guard

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"

	"golang.org/x/sync/errgroup"

	"pinfold/policy"
)

// survey looks through the write grants: for what the host would run later,
// and for what has a name outside; and through what is denied, for what has a
// name that isn't.
func (g *gate) survey(ctx context.Context) error {
	denied := g.snapshot()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var group errgroup.Group
	group.Go(func() error { return denied.checkDenied(ctx) })
	if err := g.surveyGrants(ctx); err != nil {
		cancel()
		_ = group.Wait() // of two refusals always the same one
		return err
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for _, n := range denied.notes {
		g.note(n)
	}
	return nil
}

// snapshot is a gate with a lattice of its own, to be read at the same time.
func (g *gate) snapshot() *gate {
	s := *g
	s.notes = nil
	s.build()
	return &s
}

func (g *gate) surveyGrants(ctx context.Context) error {
	found, err := g.walkGrants(ctx)
	if err != nil {
		return err
	}
	g.directories = directoriesOf(found)
	if err := g.guardAll(found); err != nil {
		return err
	}
	return g.checkLinks(ctx, found)
}

// guardAll binds the guarded names.
func (g *gate) guardAll(found walkResult) error {
	if g.policy.GuardWorkspace.Off {
		g.note("guard_workspace is off: what host programs run can be written in the write grants")
		return nil
	}
	g.findTopGrants()
	names := policy.GuardedWorkspaceNames()
	if w := g.places.workspace; w != nil {
		if err := g.guard(w.obj.path, "", names.Top); err != nil {
			return err
		}
	}
	if err := g.guardHomes(names); err != nil {
		return err
	}
	if err := g.guardMoved(names); err != nil {
		return err
	}
	if err := g.guardRepositories(found); err != nil {
		return err
	}
	for _, b := range slices.Concat(g.guarded, g.reopened) {
		g.place(b)
	}
	if err := g.guardLinks(); err != nil {
		return err
	}
	return g.checkGuardedWrites()
}

// walkGrants walks everything that may be written.
func (g *gate) walkGrants(ctx context.Context) (walkResult, error) {
	roots, files := g.writable()
	found, err := g.fs.walk(ctx, walkRequest{roots: roots, limit: g.limit(), uid: uint32(g.request.UID), seed: maphash.MakeSeed()})
	if err != nil {
		return found, g.walkRefusal(err)
	}
	if len(found.blind) > 0 {
		p := found.blind[0]
		return found, refuse("unreadable", p, nil,
			fmt.Sprintf("cannot look for hard links in %q: its permissions forbid reading it, and could be changed from inside", p),
			"chmod u+rwx "+quote(p))
	}
	found.linked = append(found.linked, files...)
	return found, nil
}

// writable are the trees that may be written, and the names of files granted
// by themselves that have others.
func (g *gate) writable() (roots []walkRoot, files []named) {
	g.lattice.each(func(n *node, v, up verdict) {
		switch {
		case n.obj.missing():
		case v.access != ReadWrite:
			if up.access == ReadWrite {
				stopIn(roots, n.path)
			}
		case up.access == ReadWrite:
		case n.obj.kind == Dir:
			roots = append(roots, walkRoot{path: n.path, id: n.obj.id})
		case n.obj.nlink > 1:
			files = append(files, named{path: n.path, id: n.obj.id, links: n.obj.nlink})
		}
	})
	return roots, files
}

// stopIn leaves a path out of the innermost root that holds it.
func stopIn(roots []walkRoot, p string) {
	for i := range slices.Backward(roots) {
		if beneath(p, roots[i].path) {
			roots[i].stop(p)
			return
		}
	}
}

func (g *gate) limit() int {
	if g.request.MaxEntries > 0 {
		return g.request.MaxEntries
	}
	return defaultEntries
}

func (g *gate) walkRefusal(err error) error {
	switch {
	case errors.Is(err, errEntries):
		return refuse("too_many_entries", fmt.Sprint(g.limit()), nil,
			fmt.Sprintf("cannot look for hard links: the write grants hold more than %d directory entries", g.limit()),
			"grant less, or raise the bound with --max-entries")
	case errors.Is(err, errDepth):
		return refuse("too_deep", "", nil, err.Error(), "grant a directory that isn't nested as deeply")
	}
	return err
}
