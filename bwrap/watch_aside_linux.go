package bwrap

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// aside is something that was taken away. It is moved first, to another name in
// the same directory: that is one step, and whoever has it open goes on writing
// to what is kept. It is copied into the record, and removed, only when nobody
// writes to it any more, which for a file that the host's own program has just
// made may be at the end of the run or later.
//
// It isn't moved into the record itself: what has a directory open inside
// could go up from there, by "..", to where the covers don't hold.
type aside struct {
	path        string // where it was found
	where, name string // its directory by now, and its name there
	since       time.Time
	settled     bool
	gone        bool // somebody else has moved or removed it
	// kept is where its content is, "" where it had none, and rest where what
	// is left of it stands.
	kept, rest string
}

// asidePrefix begins its name then, which nothing reads.
const asidePrefix = ".pinfold-taken-"

// at is where it stands meanwhile.
func (a *aside) at() string { return filepath.Join(a.where, a.name) }

// errBusy: somebody may be writing to it.
var errBusy = errors.New("it may be written to still")

// settleAge is how long something empty is left alone. The kernel tells of a
// name before whoever makes it counts as its writer (open_last_lookups() and
// do_open(), fs/namei.c).
const settleAge = 200 * time.Millisecond

// settle gives it its last place, if that can be done by now.
func (a *aside) settle(keep string, r *room) error {
	dir, err := openDir(a.where)
	if err != nil {
		return nil // the command has moved it; it may come back before the end
	}
	defer unix.Close(dir)
	return a.settleIn(dir, keep, r)
}

func (a *aside) settleIn(dir int, keep string, r *room) error {
	r.young = time.Since(a.since) < settleAge
	kept, err := r.keep(dir, a.name, keep, filepath.Base(a.path))
	switch {
	case errors.Is(err, errBusy):
		return nil
	case errors.Is(err, unix.ENOENT):
		a.settled, a.gone = true, true
		return nil
	case err != nil:
		a.settled, a.kept = true, a.at() // it is kept there instead
		return nil
	}
	a.settled, a.kept = true, kept
	if err = r.removeTree(dir, a.name); errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, errBusy) {
		a.rest, err = a.at(), nil
	}
	return err
}

// finish settles it in any case: what may be written to still stays where it is.
func (a *aside) finish(keep string, r *room) error {
	if a.settled {
		return nil
	}
	pause(settleAge - time.Since(a.since))
	err := a.settle(keep, r)
	if !a.settled {
		a.settled, a.kept = true, a.at()
	}
	return err
}

// keep copies something, unless it is an empty file, of which there is nothing
// to copy.
func (r *room) keep(dir int, name, keep, base string) (kept string, err error) {
	was := *r
	defer func() {
		if errors.Is(err, errBusy) {
			*r = was // nothing of it is there
		}
	}()
	r.copied = map[inode]version{}
	st, err := statPoint(dir, name)
	if err != nil {
		return "", err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || st.Size != 0 {
		return r.copy(dir, name, keep, base)
	}
	from, err := openToRead(dir, name)
	if err != nil {
		return "", err
	}
	defer from.Close()
	return "", r.quiet(from)
}

type inode struct {
	dev uint64
	ino uint64
}

// version tells whether a file was written to since.
type version struct {
	size  int64
	mtime unix.Timespec
}

func versionOf(st *unix.Stat_t) (inode, version) {
	return inode{uint64(st.Dev), st.Ino}, version{st.Size, st.Mtim} //nolint:unconvert // Dev is 32 bits wide on some architectures
}

// quiet makes sure that nobody writes to a file, and notes what it is then. The
// kernel grants a read lease only on a file that nobody has open for writing,
// F_SETLEASE in fcntl(2). Some file systems have no leases, and of another
// user's file there is none: then it can't be told.
func (r *room) quiet(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	id, v := versionOf(&st)
	if before, again := r.copied[id]; st.Size == 0 && r.young || again && v != before {
		return errBusy
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		return errBusy
	}
	r.copied[id] = v
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	return err
}

// openToRead opens a regular file, whose mode may be in the way.
func openToRead(dir int, name string) (*os.File, error) {
	f, err := openRegular(dir, name)
	if errors.Is(err, unix.EACCES) {
		if err = openUpName(dir, name, 0o600); err == nil {
			f, err = openRegular(dir, name)
		}
	}
	return f, err
}

// removable answers errBusy for a file that isn't what was copied.
func (r *room) removable(dir int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return ignoreGone(err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil
	}
	id, v := versionOf(&st)
	if was, ok := r.copied[id]; !ok || was != v {
		return errBusy
	}
	return nil
}
