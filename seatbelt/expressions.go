package seatbelt

import "strings"

// expressions gathers what is denied by expression: names of one directory
// share one, as far as a string of the profile holds. A home has hundreds of
// such names, and what is compiled grows with each expression.
type expressions struct {
	list  []*expression
	index map[sharedBy]*expression
}

// sharedBy is what names must have in common to share an expression.
type sharedBy struct{ ops, dir, tail string }

type expression struct {
	sharedBy
	names []foldedName
}

// foldedName is a name and its pattern beneath the directory.
type foldedName struct{ comment, pattern string }

// The ends of an expression: the name itself, what is beneath it as well, or
// the names in it.
const (
	nameAlone   = "$"
	nameAndDown = "(/|$)"
	memberAlone = "/[^/]+$"
)

// add takes a whole pattern, as [foldedPath] and [spelledLike] make it.
func (x *expressions) add(ops, dir, pattern, tail, comment string) {
	key := sharedBy{ops, dir, tail}
	e, found := x.index[key]
	if !found {
		e = &expression{sharedBy: key}
		if x.index == nil {
			x.index = map[sharedBy]*expression{}
		}
		x.index[key] = e
		x.list = append(x.list, e)
	}
	e.names = append(e.names, foldedName{comment, strings.TrimPrefix(pattern, beneath(dir))})
}

// beneath begins an expression for names of dir.
func beneath(dir string) string { return "^" + exactly(strings.TrimSuffix(dir, "/")+"/") }

// expressions writes what was gathered.
func (w *writer) expressions(x *expressions) {
	for _, e := range x.list {
		for rest := e.names; len(rest) > 0; {
			n := e.fitting(rest)
			patterns := make([]string, 0, n)
			for _, name := range rest[:n] {
				w.comment("%s", name.comment)
				patterns = append(patterns, name.pattern)
			}
			pattern := beneath(e.dir) + "(" + strings.Join(patterns, "|") + ")" + e.tail
			w.line("(deny " + e.ops + "\n" + `  (regex #"` + pattern + `")` + tagOf("deny") + ")")
			rest = rest[n:]
		}
	}
}

// fitting is how many of the names go into one string; one always does.
func (e *expression) fitting(names []foldedName) int {
	size := len(beneath(e.dir)) + len("()") + len(e.tail)
	for i, n := range names {
		size += len(n.pattern) + len("|")
		if i > 0 && size > maxString {
			return i
		}
	}
	return len(names)
}
