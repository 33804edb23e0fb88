package bwrap

import (
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// victim is what stands under a name where nothing may: a name in an open
// directory.
type victim struct {
	dir  int
	name string
	path string
	// out is the open directory that it is moved to first, dir where that is 0.
	out     int
	outPath string
	mode    uint32
	uid     uint32
	// When it was made and last changed, in nanoseconds; 0 where the file
	// system doesn't say.
	born, changed int64
}

func (v *victim) close() {
	closeFD(&v.dir)
	if v.out > 0 {
		closeFD(&v.out)
	}
}

// find answers what stands at a watched path, nil for nothing. A symbolic link
// on the way is answered as well, where it lies in the write grant: the
// guarded name could be reached through it, now or later. Above the grant
// nobody inside can have made one, so it is the host's, and left alone.
func find(path, root string) (*victim, error) {
	dir, err := openDir(filepath.Dir(path))
	switch {
	case err == nil:
		return findIn(dir, path)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR):
		return nil, nil //nolint:nilnil // nothing is an answer
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.EACCES):
		return findOnTheWay(path, root)
	}
	return nil, err
}

func openDir(path string) (int, error) {
	return unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
}

// findIn looks a path's last name up in its directory, which it takes over.
func findIn(dir int, path string) (*victim, error) {
	v := &victim{dir: dir, name: filepath.Base(path), path: path}
	err := v.look()
	if errors.Is(err, unix.EACCES) {
		if err = openUp(dir); err == nil {
			err = v.look()
		}
	}
	if err == nil {
		return v, nil
	}
	v.close()
	return nil, ignoreGone(err)
}

func (v *victim) look() error {
	st, err := statPoint(v.dir, v.name)
	if err != nil {
		return err
	}
	v.mode, v.uid = uint32(st.Mode), st.Uid
	v.changed = st.Ctime.Sec*1e9 + int64(st.Ctime.Nsec)
	if st.Mask&unix.STATX_BTIME != 0 {
		v.born = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return nil
}

// foreign reports whether it is another user's in a directory in which this
// one can change nothing: then no command of his has made it.
func (v *victim) foreign() bool {
	return int(v.uid) != unix.Geteuid() && unix.Faccessat(v.dir, ".", unix.W_OK, 0) != nil
}

// openUp gives this user the use of his own directory back, which the command
// may have taken from him.
func openUp(dir int) error {
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return err
	}
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(dir), st.Mode&0o7777|0o700)
}

// findOnTheWay goes down from the write grant by single names: to the first
// symbolic link, and through directories that were closed to this side. A
// grant that can't be reached any more is another watch's business.
func findOnTheWay(path, root string) (*victim, error) {
	if root == "" || !isBelow(path, root) {
		return nil, nil //nolint:nilnil // nothing is an answer
	}
	dir, err := openDir(root)
	if err != nil {
		return nil, ignoreLost(err)
	}
	at := strings.TrimSuffix(root, "/")
	for _, name := range strings.Split(strings.TrimPrefix(path[len(at):], "/"), "/") {
		at += "/" + name
		v, err := findIn(dir, at)
		if v == nil || at == path || v.mode&unix.S_IFMT == unix.S_IFLNK {
			return v, err
		}
		dir, err = unix.Openat(v.dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		v.close()
		if err != nil {
			return nil, ignoreGone(err)
		}
	}
	return nil, fmt.Errorf("cannot look at %q: it has no name", path)
}

// ignoreLost passes over a write grant that has gone or was replaced.
func ignoreLost(err error) error {
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EACCES) {
		return nil
	}
	return ignoreGone(err)
}

// takeAway moves it out of the way, and settles it where that can be done at
// once.
func (v *victim) takeAway(keep string, r *room) (*aside, error) {
	a := &aside{path: v.path, settled: true}
	switch err := v.unlinkEmpty(); {
	case err == nil:
		return a, nil
	case !errors.Is(err, errNotEmpty):
		return nil, err
	}
	out, where := v.outside()
	a.where, a.name, a.settled = where, asidePrefix+rand.Text(), false
	if err := v.try(func() error {
		return unix.Renameat2(v.dir, v.name, out, a.name, unix.RENAME_NOREPLACE)
	}); err != nil {
		return nil, err
	}
	a.since = time.Now()
	return a, a.settleIn(out, keep, r)
}

// outside is the directory that it is moved to, and its path.
func (v *victim) outside() (dir int, path string) {
	if v.out > 0 {
		return v.out, v.outPath
	}
	return v.dir, filepath.Dir(v.path)
}

// errNotEmpty: there is something to keep.
var errNotEmpty = errors.New("it holds something")

// unlinkEmpty removes what has no content of its own and can get none: who has
// an empty directory open can make nothing in it afterwards, and is told, but
// goes on writing to a file.
func (v *victim) unlinkEmpty() error {
	st, err := statPoint(v.dir, v.name)
	if err != nil {
		return err
	}
	flags := 0
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		flags = unix.AT_REMOVEDIR
	case unix.S_IFREG, unix.S_IFLNK:
		return errNotEmpty
	}
	err = v.try(func() error { return unix.Unlinkat(v.dir, v.name, flags) })
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENOTDIR) {
		return errNotEmpty
	}
	return err
}

// try does something in the directory, and if its mode is in the way does it
// again.
func (v *victim) try(do func() error) error {
	err := do()
	if errors.Is(err, unix.EACCES) {
		if cerr := openUp(v.dir); cerr != nil {
			return err
		}
		err = do()
	}
	return err
}
