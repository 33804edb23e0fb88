package guard

import "strings"

// onDisk is the name of a directory entry as it stands on a file system that
// folds case, where name was found under some spelling. same reports whether
// a name of the directory stands for the same object.
func onDisk(names []string, name string, same func(string) bool) string {
	for _, n := range names {
		if n == name {
			return n
		}
	}
	for _, n := range names {
		if strings.EqualFold(n, name) && same(n) {
			return n
		}
	}
	// Folded in a way that Unicode's simple folding doesn't know: by object.
	for _, n := range names {
		if same(n) {
			return n
		}
	}
	return name
}

// otherCase is a name with the case of its ASCII letters changed.
func otherCase(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return r
	}, name)
}
