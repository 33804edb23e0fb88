package seatbelt

import (
	"fmt"
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
	u := unmade{view: v, made: map[string]bool{}}
	for _, e := range v.entries {
		if e.Kind == guard.Missing && e.Access != guard.ReadWrite {
			ops := allOps
			if e.Access == guard.ReadOnly {
				ops = writeOps
			}
			u.name(e.Path, ops, e.Rule)
		}
	}
	for _, n := range v.watches {
		if len(n.Known) > 0 {
			u.members(n)
			continue
		}
		u.name(n.Path, writeOps, n.Rule)
	}
	w.err = firstError(w.err, u.err)
	w.expressions(&u.found)
}

// unmade gathers names that must not be made.
type unmade struct {
	view  view
	found expressions
	made  map[string]bool // directories on the way that are gathered
	err   error
}

func (u *unmade) name(p, ops string, rule guard.Rule) {
	root := u.view.writableAbove(p)
	if root == "" {
		return
	}
	u.add(ops, root, p, nameAndDown, fmt.Sprintf("%s must not be made, in any spelling: %s (%s, %s)", p, rule.Text, rule.Class, rule.Source))
	for d := path.Dir(p); d != root; d = path.Dir(d) {
		if !u.made[d] {
			u.made[d] = true
			u.add(makeOps, root, d, nameAlone, fmt.Sprintf("nor be moved into place with %s, where there is none yet", d))
		}
	}
}

// members keeps a directory of git's linked worktrees from gaining any: what
// would be in them can't be judged by name.
func (u *unmade) members(w guard.Watch) {
	if root := u.view.writableAbove(w.Path); root != "" {
		u.add(makeOps, root, w.Path, memberAlone, fmt.Sprintf("nothing new is made in %s: %s (%s, %s)", w.Path, w.Rule.Text, w.Rule.Class, w.Rule.Source))
	}
}

func (u *unmade) add(ops, root, p, tail, comment string) {
	pattern, err := foldedPath(root, p)
	u.err = firstError(u.err, err)
	u.found.add(ops, root, pattern, tail, comment)
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
