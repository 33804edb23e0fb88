package guard

import "slices"

// Writable reports whether the command can change what stands at a canonical
// path of the host, or replace it, by that path or by another one that a mount
// shows it at. It is pure: the guard has looked already. Callers keep what they
// trust, and what they report to, away from such paths.
func (g *Grant) Writable(path string) bool {
	places := g.table.samePlaces(path)
	return len(places) >= maxAliases || // and who knows where else
		slices.ContainsFunc(places, func(p string) bool { return g.lattice.writable(p) })
}
