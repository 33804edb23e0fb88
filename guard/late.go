package guard

import (
	"path"
	"slices"
)

// MountPoint is one line of a sandbox's mount table, for [Grant.Betrays].
type MountPoint struct {
	ID, Parent int
	Path       string // where it shows
	Kind       string // of file system
	ReadOnly   bool

	mount mount
}

// Is reports whether two lines, perhaps of tables read one after the other, are
// about one mount. The kernel gives numbers out again; and a mount gets another
// parent when one made later is put beneath it (propagation does that).
func (m MountPoint) Is(o MountPoint) bool {
	return m.ID == o.ID && m.Path == o.Path && m.mount.dev == o.mount.dev && m.mount.root == o.mount.root
}

// Betrays answers the rule that a mount undoes which was made after the guard
// had looked, where it shows something denied, in part or as a whole: by
// device and path on it, through the layers of an overlay, or as a procfs
// that isn't the sandbox's own.
func (g *Grant) Betrays(m MountPoint) (Rule, bool) {
	if m.mount.kind == "proc" {
		return Rule{Class: ClassBuiltin, Text: "procfs of the host at " + m.Path, Source: "mount table"}, true
	}
	for _, e := range g.entries {
		if (e.Access == Deny || e.Access == Empty) && e.Kind != Missing && g.table.betrayed(e.Path, m.mount) {
			return e.Rule, true
		}
	}
	return Rule{}, false
}

// betrayed reports whether a mount that isn't in the table shows what stands
// at p, something of it, or a directory that holds it. The number of a device
// alone doesn't say so: the kernel gives that of an unmounted tmpfs or overlay
// to the next one, of whatever type, and a file system keeps its type.
func (t *mountTable) betrayed(p string, m mount) bool {
	here, ok := t.locate(p)
	same := func(f inFS, kind string) bool {
		return path.IsAbs(m.root) && f.dev == m.dev && kind == m.kind && (within(f.path, m.root) || within(m.root, f.path))
	}
	if ok && same(here, t.all[t.at(p)].kind) {
		return true
	}
	if slices.ContainsFunc(m.layers, func(l string) bool { return !path.IsAbs(l) || within(p, l) || within(l, p) }) {
		return true
	}
	return slices.ContainsFunc(t.nested(p, here), func(n inFS) bool {
		return slices.ContainsFunc(t.byDev[n.dev], func(i int) bool { return same(n, t.all[i].kind) })
	})
}

// Had reports whether the host showed the same thing at the same place when
// the guard looked.
func (g *Grant) Had(m MountPoint) bool {
	return slices.ContainsFunc(g.table.all, func(have mount) bool {
		return have.dev == m.mount.dev && have.point == m.Path && have.root == m.mount.root && have.kind == m.mount.kind
	})
}
