package guard

import (
	"context"
	"errors"
	"io"
)

// fsys is the guard's only view of a file system. The rules are computed over
// it, so that they can be tested on every platform and over fixtures.
type fsys interface {
	// lookup finds what a clean absolute path leads to. A path that leads to
	// nothing is no error: its object has the kind Missing.
	lookup(path string) (object, error)
	// names lists a directory by canonical path.
	names(dir string) ([]string, error)
	// linksIn lists the symbolic links and the directories in a directory by
	// canonical path, sorted.
	linksIn(dir string) (links, dirs []string, err error)
	// read returns a regular file by canonical path, at most limit bytes of it.
	read(path string, limit int64) ([]byte, error)
	// hold opens a canonical path that must still be the object named by id.
	hold(path string, id FileID) (io.Closer, error)
	// barred reports whether this user can make nothing in a directory by
	// canonical path, whatever he does, but see what others make there.
	barred(dir string) bool
	// close lets go of what lookups kept. Lookups work on, and keep nothing.
	close()
	// walk looks through directory trees.
	walk(ctx context.Context, req walkRequest) (walkResult, error)
}

// errMagic: what such a link leads to can't be told from what stands in it.
var errMagic = errors.New("it leads through a link of /proc that belongs to a process")

// maxLinks is how many symbolic links a path may cross: MAXSYMLINKS of the
// kernel, path_resolution(7).
const maxLinks = 40

// ending is how a lookup ended.
type ending uint8

const (
	endFound       ending = iota
	endAbsent             // a name doesn't exist
	endBlunt              // a name on the way stands for something that isn't a directory
	endUnreachable        // a directory on the way can't be looked into
	endLoop               // too many symbolic links
)

// object is what a path leads to, and how.
type object struct {
	// path is canonical. For a missing object it is the canonical path of
	// what exists, followed by the names that don't.
	path string
	// exists is the canonical path of the longest prefix that exists.
	exists string
	kind   Kind
	socket bool
	id     FileID
	uid    uint32
	gid    uint32
	mode   uint32 // permission bits and sticky
	nlink  uint64
	// end says why nothing was found, where nothing was.
	end ending
	// links are the symbolic links crossed, in order.
	links []link
	// steps are the directories in which a name was looked up, in order,
	// those on the way to a link included.
	steps []step
	// handle keeps the object, so that its inode number can't be given to
	// another one meanwhile. It may be nil.
	handle io.Closer
}

// link is one symbolic link on the way to an object.
type link struct {
	path   string // canonical path of its directory, and its own name
	target string // as it stands in the link
	uid    uint32
}

// step is one name looked up in a directory.
type step struct {
	dir      string // canonical
	uid, gid uint32 // owner of the directory
	mode     uint32
	name     string
	owner    uint32 // owner of what the name stands for
	acl      bool   // the directory has a list of further users
}

func (o *object) missing() bool { return o.kind == Missing }

func (o *object) release() {
	if o.handle != nil {
		_ = o.handle.Close() // an O_PATH descriptor: nothing to lose
		o.handle = nil
	}
}
