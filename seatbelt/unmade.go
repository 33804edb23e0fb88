package seatbelt

import (
	"path"

	"pinfold/guard"
)

// makeOps are the ways in which a name can come to be, or be given up for
// another: mkdir, rename and symlink ask for file-write-create.
const makeOps = "file-write-create file-write-unlink file-mknod"

// unmade keeps names from being made that nothing stands under yet: those
// that the Grant denies or keeps read-only, and those that Linux watches.
// There the supervisor takes away what appears; here it can't appear.
//
// A name beneath directories that don't exist yet could be made elsewhere and
// moved into place as part of a directory, and a rename asks by the name of
// the directory alone. So those directories can't be made either, which is
// stricter than on Linux.
func (w *writer) unmade(v view) {
	made := map[string]bool{}
	for _, e := range v.entries {
		if e.Kind == guard.Missing && e.Access != guard.ReadWrite {
			ops := allOps
			if e.Access == guard.ReadOnly {
				ops = writeOps
			}
			w.unmadeName(v, e.Path, ops, e.Rule, made)
		}
	}
	for _, n := range v.watches {
		w.unmadeName(v, n.Path, writeOps, n.Rule, made)
	}
}

func (w *writer) unmadeName(v view, p, ops string, rule guard.Rule, made map[string]bool) {
	root := v.writableAbove(p)
	if root == "" {
		return
	}
	w.comment("%s must not be made, in any spelling: %s (%s, %s)", p, rule.Text, rule.Class, rule.Source)
	w.folded(ops, root, p, true)
	for d := path.Dir(p); d != root; d = path.Dir(d) {
		if !made[d] {
			made[d] = true
			w.comment("nor be moved into place with %s, where there is none yet", d)
			w.folded(makeOps, root, d, false)
		}
	}
}

// folded denies operations on p, however it is spelled beneath root, and
// where asked on what is beneath it.
func (w *writer) folded(ops, root, p string, beneath bool) {
	pattern, err := foldedPath(root, p)
	if err != nil {
		w.err = firstError(w.err, err)
		return
	}
	filter := `#"` + pattern + `$"`
	if beneath {
		filter += ` #"` + pattern + `/"`
	}
	w.line("(deny " + ops + "\n  (regex " + filter + ")" + tagOf("deny") + ")")
}

// writableAbove is the write grant that p would be made in, or "" where the
// nearest rule above it is none.
func (v view) writableAbove(p string) string {
	e, found := v.nearest(path.Dir(p), func(e guard.Entry) bool { return e.Kind != guard.Missing })
	if !found || e.Access != guard.ReadWrite {
		return ""
	}
	return e.Path
}
