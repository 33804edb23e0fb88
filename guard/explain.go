package guard

import "path"

// Explanation says what a launch may do with a path, and why.
type Explanation struct {
	Path      string   `json:"path"`      // as asked
	Canonical string   `json:"canonical"` // what it leads to
	Kind      string   `json:"kind"`      // missing, directory, file, other
	Readable  bool     `json:"readable"`
	Writable  bool     `json:"writable"`
	Looks     string   `json:"looks"`             // read-write, read-only, deny, empty, hidden, private
	Rule      Rule     `json:"rule"`              // the most specific one
	At        string   `json:"at,omitempty"`      // where that rule stands; "" for the base
	Links     []string `json:"links,omitempty"`   // symbolic links on the way
	Aliases   []string `json:"aliases,omitempty"` // where the same object shows as well
	Covered   bool     `json:"covered,omitempty"` // nothing stands there, and nothing may be made
	Watched   bool     `json:"watched,omitempty"` // nothing stands there; what appears is taken away
}

// Explain says what the Grant lets the command do with a path.
func (g *Grant) Explain(p string) (Explanation, error) {
	if !path.IsAbs(p) {
		return Explanation{}, refuse("path_not_absolute", p, nil, "cannot explain a path that isn't absolute", "give the whole path")
	}
	o, err := g.fs.lookup(p)
	if err != nil {
		return Explanation{}, asRefusal(err)
	}
	o.release()
	v := g.lattice.at(o.path)
	e := Explanation{
		Path: p, Canonical: o.path, Kind: o.kind.String(), Readable: v.access.readable(), Writable: v.access == ReadWrite,
		Looks: v.access.String(), Rule: v.rule, At: v.at, Aliases: g.table.aliases(o.path),
	}
	for _, l := range o.links {
		e.Links = append(e.Links, l.path)
	}
	g.explainHidden(&e, v)
	g.explainMissing(&e, o)
	return e, nil
}

// explainHidden tells the launch's own directories from nothing at all.
func (g *Grant) explainHidden(e *Explanation, v verdict) {
	if v.access != hidden {
		return
	}
	e.Looks = "hidden"
	for _, dir := range privateDirs {
		if v.at == dir {
			e.Looks = "private"
			e.Readable, e.Writable = e.Canonical == dir, e.Canonical == dir
		}
	}
}

// explainMissing says what happens at a name that nothing stands under.
func (g *Grant) explainMissing(e *Explanation, o object) {
	if !o.missing() {
		return
	}
	for _, c := range g.entries {
		e.Covered = e.Covered || c.Kind == Missing && within(o.path, c.Path)
	}
	for _, w := range g.watches {
		if within(o.path, w.Path) && !w.Worktrees {
			e.Watched, e.Writable, e.Rule, e.At = true, false, w.Rule, w.Path
		}
	}
}

// String is the word used in plans and messages.
func (k Kind) String() string {
	switch k {
	case Missing:
		return "missing"
	case Dir:
		return "directory"
	case File:
		return "file"
	case Other:
		return "other"
	}
	return "invalid"
}
