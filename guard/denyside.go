package guard

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// maxDenied is how many entries of the denied directories are looked at. A
// browser's profile or a container store may hold millions.
const maxDenied = 20_000

// deniedNames are the names of what is denied, of objects that have several.
type deniedNames struct {
	all   ledger
	notes []string
}

// checkDenied refuses what is denied under one name and shows under another.
func (g *gate) checkDenied(ctx context.Context) error {
	trees, d := g.deniedTrees()
	budget := maxDenied
	c := g.openCache()
	for _, t := range trees {
		if c.fresh(t.obj) {
			continue
		}
		n, err := g.walkDenied(ctx, t, budget, &d)
		if err != nil {
			return err
		}
		if budget -= n; len(d.all.open()) == 0 {
			c.add(t.obj, n)
		}
	}
	for _, n := range d.notes {
		g.note(n)
	}
	if open := d.all.open(); len(open) > 0 {
		return g.deniedRefusal(open[0])
	}
	c.save()
	return nil
}

// deniedTrees are the denied directories, none beneath another, and the names
// of denied files that have others.
func (g *gate) deniedTrees() ([]*bound, deniedNames) {
	d := deniedNames{all: ledger{}}
	var trees []*bound
	list := slices.Concat(g.protects, g.denies, g.defaults)
	slices.SortStableFunc(list, func(a, b *bound) int { return comparePaths(a.obj.path, b.obj.path) })
	seen := map[string]bool{}
	for _, b := range list {
		if seen[b.obj.path] || b.alias || b.obj.missing() || g.lattice.at(b.obj.path).access.readable() {
			continue
		}
		seen[b.obj.path] = true
		switch {
		case b.obj.kind != Dir:
			if b.obj.nlink > 1 {
				d.all.add(named{path: b.obj.path, id: b.obj.id, links: b.obj.nlink})
			}
		case len(trees) > 0 && beneath(b.obj.path, trees[len(trees)-1].obj.path):
		default:
			trees = append(trees, b)
		}
	}
	return trees, d
}

// walkDenied adds the names in one tree. Where the tree is larger than what
// is left to look at, nothing can be said about it.
func (g *gate) walkDenied(ctx context.Context, t *bound, budget int, d *deniedNames) (entries int, err error) {
	found, err := g.fs.walk(ctx, walkRequest{
		roots: []walkRoot{{path: t.obj.path, id: t.obj.id}}, limit: budget, uid: uint32(g.request.UID), oneFS: true,
	})
	if errors.Is(err, errEntries) || errors.Is(err, errDepth) {
		d.notes = append(d.notes, fmt.Sprintf("%s: not looked through for hard links, it holds too much", t))
		return budget, nil
	}
	if err != nil {
		return 0, err
	}
	for _, n := range found.linked {
		if !g.lattice.at(n.path).access.readable() {
			d.all.add(n)
		}
	}
	return found.entries, nil
}

func (g *gate) deniedRefusal(a *account) error {
	where := "/"
	if i := g.table.at(a.first.path); i >= 0 {
		where = g.table.all[i].point
	}
	v := g.lattice.at(a.first.path)
	return refuse("hard_link_denied", a.first.path, v.rule,
		fmt.Sprintf("cannot deny %q: it has %d names (hard links), and only %d of them are denied", a.first.path, a.first.links, a.seen),
		fmt.Sprintf("find %s -xdev -samefile %s; then remove the other name, or deny it too", quote(where), quote(a.first.path)))
}
