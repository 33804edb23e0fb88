package guard

import (
	"fmt"
	"slices"
	"strings"
)

// checkSpellings refuses two spellings of one path that say different things:
// which of them was meant can't be told.
func (g *gate) checkSpellings() error {
	seen := map[string][]*bound{}
	for _, b := range slices.Concat(g.denies, g.readOnly, g.writes, g.allows) {
		if b.rule.Class != ClassPolicy {
			continue
		}
		for _, a := range seen[b.obj.path] {
			if disagree(a, b) && spelling(a) != spelling(b) {
				return refuse("contradiction", b.given, two{a, b},
					fmt.Sprintf("cannot tell what holds at %q: two spellings of it say %s and %s", b.obj.path, a.verb, b.verb),
					two{a, b}.keepOne())
			}
		}
		seen[b.obj.path] = append(seen[b.obj.path], b)
	}
	return nil
}

func spelling(b *bound) string { return strings.TrimRight(b.rule.Text, "/") }

// disagree: a grant against what takes it away. What merely repeats, or takes
// away more, doesn't.
func disagree(a, b *bound) bool {
	deny, grant := a, b
	if grant.verb == verbDeny || grant.verb == verbReadOnly {
		deny, grant = b, a
	}
	switch grant.verb {
	case verbWrite:
		return deny.verb == verbDeny || deny.verb == verbReadOnly
	case verbAllow:
		return deny.verb == verbDeny
	}
	return false
}

// checkReaim refuses names that could be given another meaning from inside.
func (g *gate) checkReaim() error {
	for _, b := range slices.Concat(g.protects, g.readOnly, g.denies, g.defaults, g.guarded) {
		if l := g.reaimable(b); l != nil {
			return refuse("reaimable_symlink", l.path, two{b, g.lattice.at(parent(l.path)).rule},
				fmt.Sprintf("cannot keep %q as it is: %q is a symbolic link in a write grant, to be pointed elsewhere from inside", b.given, l.path),
				g.reaimFix(b, l))
		}
	}
	for _, b := range slices.Concat(g.writes, g.allows, g.sockets) {
		if b.verb == verbAllow && g.lattice.above(b.obj.path).access.readable() && !slices.Contains(g.sockets, b) {
			continue // it shows anyway
		}
		if l := g.reaimable(b); l != nil {
			return refuse("reaimable_symlink", l.path, two{b, g.lattice.at(parent(l.path)).rule},
				fmt.Sprintf("cannot grant %q: it is reached through %q, a symbolic link that was or can be pointed elsewhere from inside", b.given, l.path),
				fmt.Sprintf("name what it leads to: %q", b.obj.path))
		}
	}
	return g.checkSettings()
}

// reaimable finds a link on the way to a rule's path that can be replaced
// from inside.
func (g *gate) reaimable(b *bound) *link {
	for i, l := range b.obj.links {
		if g.lattice.writable(parent(l.path)) {
			return &b.obj.links[i]
		}
	}
	return nil
}

func (g *gate) reaimFix(b *bound, l *link) string {
	if b.rule.Class == ClassGuarded {
		return fmt.Sprintf(`replace the link by what it leads to, or set "guard_workspace": {"except": [%q]}`, b.rule.Text)
	}
	if b.kept != nil {
		return fmt.Sprintf("take the link away, and use %q by its own name", b.obj.path)
	}
	return fmt.Sprintf("replace the link by what it leads to, or add %q to read_only", parent(l.path))
}

// checkAllows refuses read exceptions that reveal nothing, or more than they
// say.
func (g *gate) checkAllows() error {
	for _, b := range g.allows {
		if b.obj.missing() || isOwn(b.obj.path) {
			continue
		}
		if v := g.lattice.at(b.obj.path); !v.access.readable() {
			return refuse("allow_reveals_nothing", b.given, two{b, v.rule},
				fmt.Sprintf("cannot allow reading %q: at that path the deny wins", b.given), two{b, v.rule}.keepOne())
		}
		if g.lattice.above(b.obj.path).access.readable() {
			continue // redundant, and no exception to anything
		}
		if err := g.checkException(b); err != nil {
			return err
		}
	}
	return nil
}

// checkException looks at what an exception to a deny would show besides.
func (g *gate) checkException(b *bound) error {
	if err := g.checkHolds(b, "protected_read", "reading"); err != nil {
		return err
	}
	up := g.lattice.above(b.obj.path)
	if up.access != Deny || up.rule.Class != ClassPolicy {
		return nil
	}
	for _, d := range g.defaults {
		if !beneath(d.obj.path, b.obj.path) || d.obj.missing() || g.lattice.at(d.obj.path).rule.Class != ClassDefault {
			continue
		}
		return refuse("allow_holds_default", b.given, two{b, d},
			fmt.Sprintf("cannot allow reading %q: it holds %q, which is denied by default", b.given, d.given),
			fmt.Sprintf("name %q in read.deny to keep it denied, or in read.allow to show it", d.rule.Text))
	}
	return nil
}
