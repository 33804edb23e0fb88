package guard

import (
	"fmt"
	"slices"

	"pinfold/policy"
)

// watchBarred has the names watched that can't be covered and needn't be: of
// what isn't there and lies in a directory in which this user can make nothing.
// No mount point can be made there for a cover to stand on, and nobody inside,
// who is the same user, can make the name. Should the directory be opened to
// him later, or somebody else make it, the watch sees that. In a container
// others than he may have a say.
func (g *gate) watchBarred(d *derived) {
	if g.tier() != policy.TierProcess {
		return
	}
	before := len(d.watches)
	d.entries = slices.DeleteFunc(slices.Clone(d.entries), func(e Entry) bool {
		if !g.isBarred(d.entries, e) {
			return false
		}
		n := g.lattice.nodes[e.Path]
		d.watches = append(d.watches, Watch{
			Path: e.Path, Root: g.lattice.above(e.Path).at, Kind: usualKind(n), Rule: e.Rule, Allow: allowance(n, e.Rule),
		})
		g.note(fmt.Sprintf("%s: nothing can be made in %s by this user, so that it is watched and not covered", e.Path, n.obj.exists))
		return true
	})
	if len(d.watches) > before {
		slices.SortStableFunc(d.watches, func(a, b Watch) int { return comparePaths(a.Path, b.Path) })
	}
}

// isBarred: an entry beneath it would have to stand on its cover.
func (g *gate) isBarred(entries []Entry, e Entry) bool {
	return e.Kind == Missing && !slices.ContainsFunc(entries, func(o Entry) bool { return beneath(o.Path, e.Path) }) &&
		g.fs.barred(g.lattice.nodes[e.Path].obj.exists)
}
