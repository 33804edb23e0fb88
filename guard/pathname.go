package guard

import (
	"path"
	"strings"
)

// within reports whether p is dir or lies beneath it. Both are clean and
// absolute.
func within(p, dir string) bool { return p == dir || beneath(p, dir) }

// beneath reports whether p lies beneath dir.
func beneath(p, dir string) bool {
	if dir == "/" {
		return p != "/"
	}
	return len(p) > len(dir) && p[len(dir)] == '/' && strings.HasPrefix(p, dir)
}

// parent is the directory of a clean absolute path; the root is its own.
func parent(p string) string { return path.Dir(p) }

// join appends a name to a clean absolute path.
func join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}

// comparePaths orders parents before children, and children before what
// merely sorts between ("/a/b" before "/a-b").
func comparePaths(a, b string) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		if a[i] != b[i] {
			return int(rank(a[i])) - int(rank(b[i]))
		}
	}
	switch {
	case a == "/" && len(b) > 1:
		return -1
	case b == "/" && len(a) > 1:
		return 1
	}
	return len(a) - len(b)
}

// rank puts the separator before every other byte.
func rank(c byte) uint16 {
	if c == '/' {
		return 0
	}
	return uint16(c) + 1
}

// ancestors are the directories above p, the root first, p itself left out.
func ancestors(p string) []string {
	if p == "/" {
		return nil
	}
	out := []string{"/"}
	for i := 1; i < len(p); i++ {
		if p[i] == '/' {
			out = append(out, p[:i])
		}
	}
	return out
}

// isClean reports whether p is absolute, clean and without a NUL byte.
func isClean(p string) bool {
	return path.IsAbs(p) && path.Clean(p) == p && !strings.ContainsRune(p, 0)
}

// maxShown bounds a path in a message: one that is too deep is thousands of
// bytes long.
const maxShown = 160

// short is a path for a message: a long one without its middle.
func short(p string) string {
	if len(p) <= maxShown {
		return p
	}
	return strings.ToValidUTF8(p[:maxShown/2]+"…"+p[len(p)-maxShown/2:], "")
}
