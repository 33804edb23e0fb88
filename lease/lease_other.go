//go:build !linux

package lease

import (
	"errors"
	"os"
)

// Held are the leases of one run.
type Held struct{}

var errUnsupported = errors.New("cannot make a mount point: there are none on this system")

// Take refuses.
func Take(Request) (*Held, error) { return nil, errUnsupported }

// Again refuses.
func Again(Request) (*Held, error) { return nil, errUnsupported }

// File is none.
func (*Held) File() *os.File { return nil }

// Make refuses.
func (*Held) Make(Point) error { return errUnsupported }

// Release has nothing to do.
func (*Held) Release() error { return nil }

// Reclaim has nothing to do where nothing runs.
func Reclaim(string) ([]string, error) { return nil, nil }

// Look keeps nothing where it is.
type Look struct{}

// BeginLook has nothing to keep.
func BeginLook(string) (*Look, error) { return nil, nil }

// Missed reports that nothing was.
func (*Look) Missed() bool { return false }

// End has nothing to end.
func (*Look) End() error { return nil }

// SetAside has nothing to set aside where nothing runs.
func SetAside(string, bool) ([]string, error) { return nil, nil }

// Leftovers has nothing to find where nothing runs.
func Leftovers(string) ([]string, error) { return nil, nil }
