package guard

import (
	"fmt"
	"path"
)

// emptyJSON is what an empty-looking .json file holds: tools that parse it
// are content.
const emptyJSON = "{}\n"

// Watch is a name that must not appear inside a write grant while the launch
// runs: nothing stands there, and a cover would leave its mount point behind.
// The supervisor takes away what appears.
type Watch struct {
	Path string
	// Root is the write grant that it lies in: nothing above it can have been
	// put there from inside.
	Root string
	// Kind is what usually stands at such a path, Missing where that isn't
	// known. What appears is taken away whatever its kind.
	Kind Kind
	// Worktrees: the path is a git directory's "worktrees", in which the command
	// may make new ones. Of them only what would give git another configuration
	// is taken away. Known are those that were there, which are guarded by
	// themselves.
	Worktrees bool     `json:",omitzero"`
	Known     []string `json:",omitempty"`
	Rule      Rule
	// Allow is the entry of a policy with which the name could be made: "" where
	// there is none.
	Allow string `json:",omitempty"`
}

// derived is what a lattice comes to.
type derived struct {
	entries []Entry
	watches []Watch
	absent  []Entry
}

// derive turns the lattice into the entries that say it, each at a path where
// something changes.
func (l *lattice) derive() derived {
	var d derived
	l.each(func(n *node, v, up verdict) {
		if !n.own && (changes(v, up) || n.deny != nil && n.deny.shows) {
			d.add(n, v, up)
		}
	})
	markPassable(d.entries)
	return d
}

func (d *derived) add(n *node, v, up verdict) {
	switch {
	case !n.obj.missing():
		d.entries = append(d.entries, entryFor(n, v))
	case up.access != ReadWrite:
		// Nobody inside can make it, but the host can. What the caller protects
		// may be about to be made: the launch's own record.
		if up.access.readable() && v.rule.Class != ClassProtected && (n.obj.end == endAbsent || n.obj.end == endFound) {
			d.absent = append(d.absent, entryFor(n, v))
		}
	case watched(v.rule.Class):
		d.watches = append(d.watches, Watch{Path: n.path, Root: up.at, Kind: usualKind(n), Rule: v.rule, Allow: allowance(n, v.rule)})
	default:
		d.entries = append(d.entries, entryFor(n, v))
	}
}

// changes reports whether a path needs an entry of its own. What is hidden
// needs none: beneath it nothing has to be taken away, and an exception to a
// protected path there, such as a workspace that isn't granted, shows nothing.
func changes(v, up verdict) bool {
	if !v.access.readable() && (up.access == hidden || v.access == hidden) {
		return false
	}
	return v.access != up.access
}

// watched: the classes whose missing names are watched, not covered.
func watched(c Class) bool { return c == ClassDefault || c == ClassGuarded }

// allowance is the entry of a policy that lifts a rule of pinfold's own.
func allowance(n *node, r Rule) string {
	if d := n.deny; r.Class == ClassDefault && d != nil && d.socket {
		return fmt.Sprintf(`"sockets": [%q]`, r.Text)
	}
	return r.Lift()
}

func entryFor(n *node, v verdict) Entry {
	e := Entry{Path: n.path, Access: v.access, Kind: n.obj.kind, ID: n.obj.id, Rule: v.rule}
	if e.Access == Empty && e.Kind == File && path.Ext(e.Path) == ".json" {
		e.Content = []byte(emptyJSON)
	}
	return e
}

// usualKind guesses what would stand at a missing path.
func usualKind(n *node) Kind {
	for _, b := range []*bound{n.cap, n.deny} {
		if b != nil && b.usual != Missing {
			return b.usual
		}
	}
	return Missing
}

// markPassable finds the denied directories that something granted lies in, or
// a directory of the launch's own. Entries are sorted, so those above one
// stand on a stack.
func markPassable(entries []Entry) {
	var stack []int
	for _, dir := range privateDirs {
		if e := nearest(entries, dir); e != nil && e.Path != dir && !e.Access.readable() {
			e.Passable = true
		}
	}
	for i := range entries {
		for len(stack) > 0 && !beneath(entries[i].Path, entries[stack[len(stack)-1]].Path) {
			stack = stack[:len(stack)-1]
		}
		if entries[i].Access.readable() {
			for _, j := range stack {
				if a := entries[j].Access; a == Deny || a == Empty {
					entries[j].Passable = true
				}
			}
		}
		stack = append(stack, i)
	}
}

// pins are the existing directories strictly between a covered path and the
// write grant that it lies in: renaming one would carry the cover away.
func (l *lattice) pins(entries []Entry, watches []Watch, ids func(dir string) (FileID, error)) ([]Pin, error) {
	p := pinner{ids: ids, seen: map[string]bool{}}
	for _, e := range entries {
		if e.Access != ReadWrite {
			if err := p.pin(entries, e.Path); err != nil {
				return nil, err
			}
		}
	}
	for _, w := range watches {
		if err := p.pin(entries, w.Path); err != nil {
			return nil, err
		}
	}
	return p.sorted(), nil
}
