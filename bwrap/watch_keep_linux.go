package bwrap

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// room bounds what one run may put into its record this way.
type room struct {
	bytes   int64
	entries int
	serial  int
	// copied are the files that are in the copy that is made, and young is that
	// they have just been moved.
	copied map[inode]version
	young  bool
}

func newRoom() room { return room{bytes: 16 << 20, entries: 2000, copied: map[inode]version{}} }

// errNoRoom: it is more than is copied.
var errNoRoom = errors.New("it is too much to copy")

// copy copies a name of a directory into keep, and answers the copy's path.
// Only files, directories and links are copied; there is nothing in the rest.
// No link is followed and no file system left, and nothing of the copy can be
// executed or is anybody's but this user's.
func (r *room) copy(dir int, name, keep, base string) (string, error) {
	if err := os.MkdirAll(keep, 0o700); err != nil {
		return "", err
	}
	out, err := openDir(keep)
	if err != nil {
		return "", err
	}
	defer unix.Close(out)
	for {
		r.serial++
		to := strconv.Itoa(r.serial) + "-" + base
		err := r.copyTo(dir, name, out, to)
		if errors.Is(err, unix.EEXIST) && r.serial < maxTaken {
			continue
		}
		if err != nil {
			err = errors.Join(err, removeTree(out, to)) // it would be half of it
		}
		return filepath.Join(keep, to), err
	}
}

func (r *room) copyTo(dir int, name string, out int, to string) error {
	if r.entries--; r.entries < 0 {
		return errNoRoom
	}
	st, err := statPoint(dir, name)
	if err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return r.copyDir(dir, name, out, to)
	case unix.S_IFREG:
		return r.copyFile(dir, name, out, to)
	case unix.S_IFLNK:
		target := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(dir, name, target)
		if err != nil {
			return err
		}
		return unix.Symlinkat(string(target[:n]), out, to)
	}
	return nil
}

func (r *room) copyFile(dir int, name string, out int, to string) error {
	from, err := openToRead(dir, name)
	if err != nil {
		return err
	}
	defer from.Close()
	if err := r.quiet(from); err != nil {
		return err
	}
	fd, err := unix.Openat(out, to, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), to)
	n, err := io.Copy(file, io.LimitReader(from, r.bytes+1))
	if r.bytes -= n; err == nil && r.bytes < 0 {
		err = errNoRoom
	}
	if err == nil {
		err = r.quiet(from) // again: it took a while
	}
	return errors.Join(err, file.Close())
}

// errNoFile: something else has come in a file's place.
var errNoFile = errors.New("it is no longer a file")

// openRegular opens a file to read, and nothing else. What the name stands
// for is pinned down before it is opened: a FIFO that was put there after the
// last look would hold up its reader, and with it the whole watch, for as
// long as the command likes.
func openRegular(dir int, name string) (*os.File, error) {
	pin, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(pin)
	var st unix.Stat_t
	if err := unix.Fstat(pin, &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errNoFile
	}
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(pin), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

func (r *room) copyDir(dir int, name string, out int, to string) error {
	if err := unix.Mkdirat(out, to, 0o700); err != nil {
		return err
	}
	into, err := openBelow(out, to)
	if err != nil {
		return err
	}
	defer unix.Close(into)
	return eachIn(dir, name, func(in int, entry string) error { return r.copyTo(in, entry, into, entry) })
}

// openBelow opens a directory by a name in another, on the same file system.
func openBelow(dir int, name string) (int, error) {
	return unix.Openat2(dir, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV,
	})
}

// openUpName lets this user use his own file or directory. Where a link has
// come in its place, the mode that changes is the link's own, which has none.
func openUpName(dir int, name string, mode uint32) error {
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return unix.ELOOP
	}
	return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), st.Mode&0o7777|mode)
}

// maxDepth bounds how deep a tree is gone down.
const maxDepth = 64

// eachIn calls fn with every name in a directory.
func eachIn(dir int, name string, fn func(dir int, entry string) error) error {
	fd, err := openBelow(dir, name)
	if errors.Is(err, unix.EACCES) {
		if err = openUpName(dir, name, 0o700); err == nil {
			fd, err = openBelow(dir, name)
		}
	}
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	for {
		list, err := f.Readdirnames(256)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, entry := range list {
			if err := fn(fd, entry); err != nil {
				return err
			}
		}
	}
}

// removeTree removes a name of a directory with everything beneath it.
func removeTree(dir int, name string) error {
	return removeDeep(dir, name, 0, func(int, string) error { return nil })
}

// removeTree removes what was copied, and leaves what wasn't.
func (r *room) removeTree(dir int, name string) error { return removeDeep(dir, name, 0, r.removable) }

func removeDeep(dir int, name string, depth int, may func(dir int, name string) error) error {
	if err := may(dir, name); err != nil {
		return err
	}
	err := unix.Unlinkat(dir, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) {
		return err
	}
	if depth > maxDepth {
		return fmt.Errorf("cannot remove %q: it is nested too deep", name)
	}
	if err := openUpName(dir, name, 0o700); err != nil {
		return err
	}
	if err := eachIn(dir, name, func(in int, entry string) error { return removeDeep(in, entry, depth+1, may) }); err != nil {
		return err
	}
	return unix.Unlinkat(dir, name, unix.AT_REMOVEDIR)
}
