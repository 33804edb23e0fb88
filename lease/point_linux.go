package lease

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// parent opens the directory that holds the mount point. The path was
// canonical when the guard looked; a link on it now was put there since, and
// nothing is made or removed through one.
func (n note) parent() (int, error) {
	dir := filepath.Dir(n.Path)
	fd, err := unix.Openat2(unix.AT_FDCWD, dir, &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return -1, fmt.Errorf("cannot open %q: %w", dir, err)
	}
	return fd, nil
}

// make makes the mount point and answers the note that knows it. Its modes
// keep others out: on the host it is seen, but of no use to anyone.
func (n note) make() (note, error) {
	dir, err := n.parent()
	if err != nil {
		return n, err
	}
	defer unix.Close(dir)
	base := filepath.Base(n.Path)
	if n.Dir {
		err = unix.Mkdirat(dir, base, dirMode)
	} else {
		var fd int
		fd, err = unix.Openat(dir, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, fileMode)
		if err == nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		return n, err
	}
	st, err := statPoint(dir, base)
	if err != nil {
		return n, err
	}
	n.Dev, n.Ino = unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino
	return n, nil
}

func statPoint(dir int, base string) (*unix.Statx_t, error) {
	var st unix.Statx_t
	const want = unix.STATX_BASIC_STATS | unix.STATX_BTIME
	if err := unix.Statx(dir, base, unix.AT_SYMLINK_NOFOLLOW|unix.AT_STATX_DONT_SYNC, want, &st); err != nil {
		return nil, err
	}
	return &st, nil
}

// stands answers nil if what is at the path is the empty thing that was made.
func (n note) stands() error {
	dir, err := n.parent()
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	st, err := statPoint(dir, filepath.Base(n.Path))
	if err != nil {
		return err
	}
	if !n.matches(st) {
		return errNotOurs
	}
	return nil
}

// errNotOurs is what stands for a mount point that somebody has replaced or
// put to use.
var errNotOurs = errors.New("it is something else by now")

// The modes of what is made.
const (
	dirMode  = 0o700
	fileMode = 0o600
)

// matches compares by identity; or, for a run that was killed between making
// and noting, by birth right after the intent, owner and mode. An empty
// directory that somebody made later isn't it. What took longer, in a process
// that was stopped just there, stays.
func (n note) matches(st *unix.Statx_t) bool {
	kind, mode := uint16(unix.S_IFREG), uint16(fileMode)
	if n.Dir {
		kind, mode = unix.S_IFDIR, dirMode
	}
	if st.Mode&unix.S_IFMT != kind || !n.Dir && (st.Size != 0 || st.Nlink != 1) {
		return false
	}
	if n.Ino != 0 {
		return n.Ino == st.Ino && n.Dev == unix.Mkdev(st.Dev_major, st.Dev_minor)
	}
	born := st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	return st.Mask&unix.STATX_BTIME != 0 && born >= n.Intent-clockSlack && born <= n.Intent+makeTime &&
		int(st.Uid) == unix.Geteuid() && st.Mode&0o777 == mode
}

// makeTime is how long after the intent a mount point may have been made. It is
// the next system call.
const makeTime = 1e9

// clockSlack is how far file times, which come from the clock of the last
// tick, lie behind the clock proper: 10 ms at 100 ticks a second.
const clockSlack = 10e6

// remove takes the mount point away if it is still the empty thing that was
// made. Anything else stays, and is no error: it is somebody's.
func (n note) remove() (bool, error) {
	dir, err := n.parent()
	if err != nil {
		return false, ignoreGone(err)
	}
	defer unix.Close(dir)
	base := filepath.Base(n.Path)
	st, err := statPoint(dir, base)
	if err != nil || !n.matches(st) {
		return false, ignoreGone(err)
	}
	flags := 0
	if n.Dir {
		flags = unix.AT_REMOVEDIR
	}
	err = unix.Unlinkat(dir, base, flags)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) {
		return false, nil
	}
	if err != nil {
		return false, ignoreGone(fmt.Errorf("cannot remove the mount point %q: %w", n.Path, err))
	}
	return true, nil
}

// ignoreGone drops the errors of a path that isn't there any more.
func ignoreGone(err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	return err
}
