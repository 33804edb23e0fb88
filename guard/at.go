package guard

// At is what holds at a canonical path, and the rule that decided. It is
// pure: the guard has looked already. The zero Access means that nothing of
// the host shows there.
func (g *Grant) At(path string) (Access, Rule) {
	v := g.lattice.at(path)
	return v.access, v.rule
}

// Writable reports whether the command can change what stands at a canonical
// path of the host, or replace it. Callers keep what they trust, and what they
// report to, away from such paths.
func (g *Grant) Writable(path string) bool {
	access, _ := g.At(path)
	return access == ReadWrite
}
