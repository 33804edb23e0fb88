package bwrap

import "pinfold/guard"

// judge is what a Grant says of a mount that the host made after the guard had
// looked.
type judge interface {
	Betrays(m guard.MountPoint) (guard.Rule, bool)
	Had(m guard.MountPoint) bool
}
