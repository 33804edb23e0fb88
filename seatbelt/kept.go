package seatbelt

import (
	"path"
	"slices"

	"pinfold/guard"
)

// keepOps are refused for a name that stays where it is and what it is:
// rename(2) and rmdir(2) ask for file-write-unlink on the old name. That one
// put in its place, or exchanged with it by renamex_np(2), is asked for as a
// removal of what stands there is likely and written down nowhere; if it were
// asked for as the making of a name alone, file-write-create refuses it too.
// Nothing else makes a name that is there: mkdir(2) and open(2) answer before
// they ask.
const keepOps = "file-write-unlink file-write-create"

// kept keeps the names that the rules go by: those above a covered path, and
// the write grants themselves. One that was moved into another grant would
// leave the rules about what lies in it behind, to be moved back with a hook
// in it. It comes after every allow.
func (w *writer) kept(v view, o Options) {
	for _, p := range v.pins {
		w.comment("%s keeps its name: something beneath it is covered", p.Path)
		w.rule("deny", keepOps, "literal", p.Path)
	}
	roots := v.roots()
	if o.Tmp != "" {
		roots = append(roots, o.Tmp)
	}
	if len(roots) > 0 {
		w.comment("write grants keep their names")
	}
	for _, d := range roots {
		w.rule("deny", keepOps, "literal", d)
	}
	w.otherSpellings(v)
}

// roots are the directories that are granted for writing.
func (v view) roots() []string {
	var out []string
	for _, e := range v.entries {
		if e.Access == guard.ReadWrite && e.Kind == guard.Dir {
			out = append(out, e.Path)
		}
	}
	return out
}

// otherSpellings keeps a kept or covered name from being given up, or another
// put in its place, by another spelling of it, on a volume that takes both for
// one. The kernel asks about a new name by the spelling of whoever makes it.
// About what stands there it asks by its own name where that is opened; that
// it does where that is removed as well is likely, and written down nowhere.
func (w *writer) otherSpellings(v view) {
	names := v.roots()
	for _, p := range v.pins {
		names = append(names, p.Path)
	}
	for _, e := range v.entries {
		if e.Access != guard.ReadWrite && e.Kind != guard.Missing {
			names = append(names, e.Path)
		}
	}
	slices.Sort(names)
	var found expressions
	for _, p := range slices.Compact(names) {
		if v.writableAbove(p) == "" {
			continue
		}
		pattern, err := spelledLike(path.Dir(p), path.Base(p))
		w.err = firstError(w.err, err)
		found.add(keepOps, path.Dir(p), pattern, nameAlone, p+" isn't given up or replaced by another spelling of it")
	}
	w.expressions(&found)
}
