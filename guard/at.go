package guard

// Writable reports whether the command can change what stands at a canonical
// path of the host, or replace it. It is pure: the guard has looked already.
// Callers keep what they trust, and what they report to, away from such paths.
func (g *Grant) Writable(path string) bool {
	return g.lattice.at(path).access == ReadWrite
}
