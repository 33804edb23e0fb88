package guard

import (
	"fmt"
	"path"
	"slices"
)

// placeLayers finds the directories of the overlays of a mount table as they
// are in this file system: container engines name lower directories by links
// (l/ABC), and where the names are too long for a mount's options relative to
// a directory that they have entered, which the table doesn't tell. That is one
// above the place of the mount, or above a directory that is named in full.
func (g *gate) placeLayers(list []mount) []mount {
	list = slices.Clone(list)
	seen := map[string]string{} // engines share most layers
	for i := range list {
		if m := &list[i]; len(m.layers) > 0 {
			m.layers, m.unplaced = g.layersOf(*m, seen)
		}
	}
	return list
}

// layersOf are the directories of one overlay; unplaced reports whether one
// of them can't be found.
func (g *gate) layersOf(m mount, seen map[string]string) (placed []string, unplaced bool) {
	bases := basesOf(m)
	for _, l := range m.layers {
		if path.IsAbs(l) {
			placed = append(placed, l)
			if at := g.layerAt(l, seen); at != "" {
				placed = append(placed, at)
			}
			continue
		}
		found := false
		for _, base := range bases {
			if at := g.layerAt(path.Join(base, l), seen); at != "" {
				placed, found = append(placed, at), true
			}
		}
		unplaced = unplaced || !found
	}
	slices.Sort(placed)
	return slices.Compact(placed), unplaced
}

// basesOf are the directories that relative layers may be meant from.
func basesOf(m mount) []string {
	bases := ancestors(m.point)
	for _, l := range m.layers {
		if path.IsAbs(l) {
			bases = append(bases, ancestors(l)...)
		}
	}
	slices.Sort(bases)
	return slices.Compact(bases)
}

// layerAt is the canonical path of a directory, "" where there is none that
// this user can reach.
func (g *gate) layerAt(p string, seen map[string]string) string {
	if at, known := seen[p]; known {
		return at
	}
	at := ""
	if o, err := g.fs.lookup(p); err == nil {
		o.release()
		if !o.missing() && o.kind == Dir {
			at = o.path
		}
	}
	seen[p] = at
	return at
}

// bindUnplaced hides an overlay of which a layer can't be found: nobody knows
// what it shows. The root itself is left alone: its layers lie outside of what
// shows here.
func (g *gate) bindUnplaced(list []mount) error {
	for _, m := range list {
		if !m.unplaced || m.point == "/" {
			continue
		}
		b, err := g.literal("mount table", m.point, ClassBuiltin, verbDeny)
		if err != nil {
			return err
		}
		b.rule.Text = fmt.Sprintf("overlay of unknown layers at %s", m.point)
		if b.obj.missing() || b.obj.path != m.point {
			continue
		}
		g.unplaced = append(g.unplaced, b)
	}
	return nil
}

// checkUnplaced refuses grants in such an overlay.
func (g *gate) checkUnplaced(b *bound) error {
	for _, u := range g.unplaced {
		if within(b.obj.path, u.obj.path) {
			return refuse("overlay_unknown", b.given, two{b, u},
				fmt.Sprintf("cannot grant %q: it lies in the overlay at %q, which may show what is denied elsewhere: its layers were named relative to a directory that can't be found", b.given, u.obj.path),
				"mount the overlay with absolute directories, or leave the entry out")
		}
	}
	return nil
}
