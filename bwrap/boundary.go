package bwrap

import "pinfold/guard"

// judge is what a Grant says of a mount that the host made after the guard had
// looked.
type judge interface {
	Betrays(m guard.MountPoint) (guard.Rule, bool)
	Had(m guard.MountPoint) bool
}

// recipe says how to make anew, while the launch runs, what bubblewrap had
// mounted on a path and the host has taken away.
type recipe struct {
	kind    recipeKind
	mode    uint32 // of what hides
	content []byte
	rule    guard.Rule
}

// recipeKind is what is to stand at the path.
type recipeKind uint8

const (
	showReadOnly recipeKind = iota + 1 // the host's object, unwritable
	hideAll                            // something empty instead of it
)

// The bits that tell a hidden directory from a hidden file.
const (
	searchBits = 0o111
	emptyDir   = 0o555
	emptyFile  = 0o444
)

// modeFor is the mode of what hides a directory or a file. Both of a denied
// path have none; one that looks empty can be read.
func (r recipe) modeFor(dir bool) uint32 {
	switch {
	case r.mode&^searchBits == 0:
		return r.mode
	case dir:
		return emptyDir
	}
	return emptyFile
}
