package guard

import (
	"fmt"
	"slices"
)

// names reports whether a rule names exactly the path of a default deny: as
// the default spells it, or as it is really called. A link elsewhere that
// happens to lead there names something else, and so does another mount.
func names(b, d *bound) bool {
	return b.given == d.given || b.given == d.obj.path && !d.alias
}

// reaches reports whether a rule names a path in a default deny.
func reaches(b, d *bound) bool {
	return beneath(b.given, d.given) || beneath(b.given, d.obj.path) && !d.alias
}

// lifted reports whether the policy lifts a default deny by naming it.
func (g *gate) lifted(d *bound) bool {
	list := g.allows
	if d.socket {
		list = g.sockets
	}
	return slices.ContainsFunc(list, func(b *bound) bool { return names(b, d) })
}

// checkDefaults refuses grants that reach a default deny without lifting it.
func (g *gate) checkDefaults() error {
	for _, d := range g.defaults {
		for _, b := range slices.Concat(g.writes, g.allows, g.sockets) {
			if b.rule.Class != ClassPolicy || !within(b.obj.path, d.obj.path) || g.excused(b, d) {
				continue
			}
			return g.defaultReached(b, d)
		}
	}
	return nil
}

// excused reports whether a grant within a default deny is an exception to
// it.
func (g *gate) excused(b, d *bound) bool {
	switch {
	case b.verb == verbWrite:
		return slices.ContainsFunc(g.allows, func(a *bound) bool {
			return reaches(a, d) && within(b.given, a.given)
		})
	case slices.Contains(g.sockets, b):
		return reaches(b, d) || g.isToolbelt(b)
	case d.socket:
		return reaches(b, d) && b.obj.kind == File || b.obj.missing()
	}
	return reaches(b, d)
}

func (g *gate) defaultReached(b, d *bound) error {
	doing, fix := "reading", fmt.Sprintf("name exactly %q in read.allow, or leave the entry out", d.rule.Text)
	if b.verb == verbWrite {
		doing, fix = "writing to", fmt.Sprintf("add %q to read.allow as well, or leave the entry out", d.rule.Text)
	}
	if d.socket {
		fix = fmt.Sprintf("name exactly the socket that is meant in sockets (%q is denied by default), or leave the entry out", d.rule.Text)
	}
	return refuse("default_deny", b.given, two{b, d},
		fmt.Sprintf("cannot grant %s %q: %q is denied by default", doing, b.given, d.given), fix)
}
