package guard

import (
	"fmt"
	"slices"

	"pinfold/policy"
)

// The mode bits that let a directory be passed through, inode(7).
const (
	modeGroupSearch = 0o010
	modeOtherSearch = 0o001
)

// checkReachable refuses an entry that root can look at here, but can't mount
// on: inside a user namespace of its own root is nobody special in another
// user's directory (capabilities(7), user_namespaces(7)). To leave the entry
// out instead would hold only until that user opens the directory.
func (g *gate) checkReachable(d derived) error {
	if g.request.UID != 0 || g.tier() != policy.TierProcess {
		return nil
	}
	for _, e := range d.entries {
		n := g.lattice.nodes[e.Path]
		if n == nil {
			continue
		}
		for _, s := range append(slices.Clone(n.obj.steps), ownStep(n)...) {
			if g.closed(s) {
				return refuse("closed_to_root", e.Path, e.Rule,
					fmt.Sprintf("cannot make %q %s: user %d's directory %q is closed to root inside the boundary", e.Path, e.Access, s.uid, s.dir),
					g.foreignFix(s.uid, ""))
			}
		}
	}
	return nil
}

// ownStep is what is granted itself, where it is a directory: one that can be
// mounted but not entered would be a grant of nothing. Denied and guarded
// directories are covered whatever their mode.
func ownStep(n *node) []step {
	o := n.obj
	if n.grant == nil || o.kind != Dir {
		return nil
	}
	return []step{{dir: o.path, uid: o.uid, gid: o.gid, mode: o.mode}}
}

// closed reports whether a directory can't be passed through without
// capabilities. Its list of further users may name root.
func (g *gate) closed(s step) bool {
	switch {
	case s.uid == 0 || s.acl:
		return false
	case int64(s.gid) == int64(g.request.GID):
		return s.mode&modeGroupSearch == 0
	}
	return s.mode&modeOtherSearch == 0
}
