package guard

import (
	"errors"
	"hash/maphash"
	"strings"
)

// defaultEntries is how many directory entries a launch looks at, unless the
// request says otherwise.
const defaultEntries = 1_000_000

// The ways in which a walk ends early.
var (
	errEntries = errors.New("too many directory entries")
	errDepth   = errors.New("directories nested too deeply")
)

// maxDepth bounds the descriptors that a walk holds: one for each directory
// above the one it reads. PATH_MAX allows half its bytes in levels.
const maxDepth = 2048

// walkRequest is a walk over directory trees by descriptor. Symbolic links
// are never followed.
type walkRequest struct {
	roots []walkRoot
	// limit bounds the entries of all roots together.
	limit int
	// uid is the user inside: what that user owns but can't read, it can
	// open up.
	uid uint32
	// seed is set where the directories are to be remembered.
	seed maphash.Seed
	// oneFS: file systems mounted beneath a root aren't entered.
	oneFS bool
}

// walkRoot is a tree by canonical path.
type walkRoot struct {
	path string
	id   FileID
	// stops are the paths beneath that aren't entered, nor counted.
	stops *stops
}

// stops is a set of paths, by name from the root down.
type stops struct {
	here bool
	next map[string]*stops
}

// stop leaves out what lies at a path beneath the root.
func (r *walkRoot) stop(path string) {
	if r.stops == nil {
		r.stops = &stops{}
	}
	r.stops.add(strings.TrimPrefix(path[len(r.path):], "/"))
}

// add puts a path into the set, relative to the root.
func (s *stops) add(rel string) {
	for name := range strings.SplitSeq(rel, "/") {
		if s.next == nil {
			s.next = map[string]*stops{}
		}
		if s.next[name] == nil {
			s.next[name] = &stops{}
		}
		s = s.next[name]
	}
	s.here = true
}

// named is one name of an object that has several.
type named struct {
	path  string
	id    FileID
	links uint64
}

// walkResult is what a walk saw.
type walkResult struct {
	entries int
	// linked are the names of objects with more than one: files, sockets,
	// FIFOs and devices.
	linked []named
	// gits are the paths called ".git", bares the directories that look like
	// a bare repository.
	gits, bares []string
	// dirs are the keys of the directories, made with a seed.
	dirs []uint64
	seed maphash.Seed
	// blind are the directories that couldn't be read, though the user inside
	// could make them readable.
	blind []string
}

// bare recognises a bare repository by the names in a directory, as git does:
// a HEAD, and the directories objects and refs.
type bare uint8

const (
	hasHead bare = 1 << iota
	hasObjects
	hasRefs
	isBare = hasHead | hasObjects | hasRefs
)

// see takes note of one name.
func (b *bare) see(name []byte) {
	switch string(name) {
	case "HEAD":
		*b |= hasHead
	case "objects":
		*b |= hasObjects
	case "refs":
		*b |= hasRefs
	}
}
