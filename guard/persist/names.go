package persist

import (
	"path"
	"slices"
	"strings"
	"sync"

	"pinfold/policy"
)

// rule is a name that programs of the host run or obey, wherever it stands: a
// file, or a directory with all that is in it.
type rule struct {
	name string // the last of its names
	up   []string
	what string
	// part: the rule's own directory lies deeper. Only a link there counts,
	// which brings along whatever is beneath.
	part bool
}

// table finds rules by their last name.
type table map[string][]rule

// names is the table: what the guard keeps read-only, and what it doesn't.
//
//nolint:gochecknoglobals // a table
var names = sync.OnceValue(func() table {
	t := table{}
	for _, n := range guardedNames() {
		t.add(n, labelOf(n))
	}
	further := furtherNames()
	for _, what := range kinds() { // in one order
		for _, n := range further[what] {
			t.add(n, what)
		}
	}
	return t
})

// guardedNames are the guard's, each from where it stands in a checkout or a
// home.
func guardedNames() []string {
	g := policy.GuardedWorkspaceNames()
	list := slices.Concat(g.Top, g.Home)
	for _, a := range g.Agents {
		for _, n := range a.Names {
			list = append(list, path.Join(a.Dir, n))
		}
	}
	return list
}

// add adds a name, and for the directories on the way to it that they may be
// links. The first to come says what it is.
func (t table) add(name, what string) {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		r := rule{name: p, up: parts[:i], what: what, part: i < len(parts)-1}
		same := func(o rule) bool { return slices.Equal(o.up, r.up) && o.part == r.part }
		if !slices.ContainsFunc(t[p], same) {
			t[p] = append(t[p], r)
		}
	}
}

// find is the rule for a path, the one with the longest name; nil for none.
// What is only on the way to a name is found where that is asked for.
func (t table) find(file string, part bool) *rule {
	var best *rule
	for i := range t[path.Base(file)] {
		r := &t[path.Base(file)][i]
		if (!r.part || part) && endsIn(path.Dir(file), r.up) && (best == nil || r.closer(best)) {
			best = r
		}
	}
	return best
}

// closer orders two rules for one path.
func (r *rule) closer(than *rule) bool {
	if r.part != than.part {
		return than.part
	}
	return len(r.up) > len(than.up)
}

// endsIn reports whether a directory's last names are these.
func endsIn(dir string, up []string) bool {
	for _, name := range slices.Backward(up) {
		if path.Base(dir) != name {
			return false
		}
		dir = path.Dir(dir)
	}
	return true
}

// whatRuns says who runs a file, by its own name, and how many of its last
// names that takes.
func whatRuns(file string, link bool) (what string, depth int) {
	if r := names().find(file, link); r != nil {
		return r.what, len(r.up) + 1
	}
	for suffix, what := range bySuffix() {
		if strings.HasSuffix(file, suffix) {
			return what, 1
		}
	}
	return "", 0
}

// notEntered are directories whose contents are others' work by the thousand.
func notEntered(name string) bool { return name == "node_modules" }
