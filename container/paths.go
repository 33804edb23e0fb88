package container

import (
	"path"
	"slices"
	"strings"
)

// comparePaths orders paths component by component, so that a path comes
// right after all those above it.
func comparePaths(a, b string) int {
	return strings.Compare(strings.ReplaceAll(a, "/", "\x00"), strings.ReplaceAll(b, "/", "\x00"))
}

// isBelow reports whether p lies strictly beneath dir.
func isBelow(p, dir string) bool {
	return p != dir && (dir == "/" || strings.HasPrefix(p, dir+"/"))
}

// isAt reports whether p is dir or lies beneath it.
func isAt(p, dir string) bool { return p == dir || isBelow(p, dir) }

// moved is p with what is above it exchanged: from beneath one directory to
// beneath another.
func moved(p, from, to string) string {
	return path.Join(to, strings.TrimPrefix(p, from))
}

// between lists the directories strictly between an ancestor and a path.
func between(ancestor, p string) []string {
	var dirs []string
	for d := path.Dir(p); isBelow(d, ancestor); d = path.Dir(d) {
		dirs = append(dirs, d)
	}
	slices.Reverse(dirs)
	return dirs
}
