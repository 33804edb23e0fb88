package guard

import (
	"errors"
	"io/fs"
)

// ErrAgain is in a refusal of what had vanished between the look and the
// moment when it was to be held, or been replaced where it is only kept from
// the command. Looking from the start may find all in order: another launch's
// watch takes such names away all the time.
var ErrAgain = errors.New("a name vanished while it was looked at")

// vanished marks an error without changing what it says.
type vanished struct{ error }

func (v vanished) Unwrap() error { return v.error }
func (vanished) Is(target error) bool {
	return target == ErrAgain //nolint:errorlint // that is how Is is written
}

// asVanished marks an error of holding what a rule is about.
func asVanished(err error, class Class) error {
	if errors.Is(err, fs.ErrNotExist) || class == ClassGuarded {
		return vanished{err}
	}
	return err
}

// Changed is a path of the grant at which the host doesn't have now what the
// guard saw there, "" where it has all of it.
func (g *Grant) Changed() string {
	for _, e := range g.entries {
		if !g.stands(e.Path, e.ID) {
			return e.Path
		}
	}
	for _, p := range g.pins {
		if !g.stands(p.Path, p.ID) {
			return p.Path
		}
	}
	return ""
}

// stands reports whether a canonical path is what an identity says; nothing
// stands at one that has none.
func (g *Grant) stands(path string, id FileID) bool {
	o, err := g.fs.lookup(path)
	if err != nil {
		return false
	}
	defer o.release()
	if o.missing() {
		return id == FileID{}
	}
	return o.path == path && o.id == id
}
