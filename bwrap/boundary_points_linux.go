package bwrap

import (
	"fmt"

	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// point is one path that must stay what it was when the launch began.
type point struct {
	path string
	kind wire.CheckKind
	want identity
	up   identity // of the directory that it lies in
	// watched: its name was left free, and is cleared when it is taken.
	watched bool
}

// identity is what a path leads to inside.
type identity struct {
	err      unix.Errno // why it leads to nothing
	dev, ino uint64
	mount    uint64 // of the mount, 0 before Linux 5.8
	readOnly bool
}

// pointsOf are the paths that the stub compares, but for those that nobody could
// change afterwards.
func pointsOf(l *Launch) []point {
	points := make([]point, 0, len(l.Setup.Checks))
	for _, c := range l.Setup.Checks {
		if !l.private(c.Path) {
			points = append(points, point{path: c.Path, kind: c.Kind})
		}
	}
	return points
}

// private reports whether a path lies in the sandbox's own /proc, with nothing of
// the host's in it: then what the host mounts doesn't show there, nor does it
// move anything.
func (l *Launch) private(path string) bool {
	return isBelow(path, "/proc") && l.isLater("/proc/sys")
}

// hostPaths are the points that lie on file systems of the host. The others
// are the sandbox's own, which nobody outside can change.
func hostPaths(points []point) []string {
	var paths []string
	for _, p := range points {
		own := false
		for _, dir := range []string{"/proc", "/dev", "/sys"} {
			own = own || p.path == dir || isBelow(p.path, dir)
		}
		if !own && p.path != "/" {
			paths = append(paths, p.path)
		}
	}
	return paths
}

// identify looks at a path inside, from outside: the lookup starts at the
// sandbox's root and goes through its mounts, openat2(2).
func (b *boundary) identify(path string) identity {
	fd, err := openInside(b.root, path)
	if err != nil {
		return identity{err: rawErrno(err)}
	}
	defer unix.Close(fd)
	return identifyFD(fd)
}

func openInside(root int, path string) (int, error) {
	how := &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS,
	}
	for {
		fd, err := unix.Openat2(root, path, how)
		if err != unix.EINTR && err != unix.EAGAIN { // EAGAIN: a rename raced with the lookup
			return fd, err
		}
	}
}

func identifyFD(fd int) identity {
	var st unix.Statx_t
	var fs unix.Statfs_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_INO|unix.STATX_TYPE|unix.STATX_MNT_ID, &st)
	if err == nil {
		err = unix.Fstatfs(fd, &fs)
	}
	if err != nil {
		return identity{err: rawErrno(err)}
	}
	id := identity{dev: unix.Mkdev(st.Dev_major, st.Dev_minor), ino: st.Ino, readOnly: fs.Flags&unix.ST_RDONLY != 0}
	if st.Mask&unix.STATX_MNT_ID != 0 {
		id.mount = st.Mnt_id
	}
	return id
}

func rawErrno(err error) unix.Errno {
	if e, ok := err.(unix.Errno); ok { //nolint:errorlint // x/sys returns it bare
		return e
	}
	return unix.EIO
}

func (p *point) loss(got identity) *loss { return &loss{p.code(), p.path, p.differs(got)} }

func (p *point) code() string {
	switch p.kind {
	case wire.CheckAbsent:
		return "denied_name_appeared"
	case wire.CheckBind:
		if !p.want.readOnly {
			return "grant_replaced"
		}
	}
	return "cover_detached"
}

// differs says what has become of it.
func (p *point) differs(got identity) string {
	switch {
	case p.kind == wire.CheckAbsent:
		return "something appeared there on the host, which a rule denies"
	case got.err != 0:
		return fmt.Sprintf("the host removed or moved what stood there (%v)", got.err)
	case got.dev == p.want.dev && got.ino == p.want.ino:
		return "the host changed the mount that holds there"
	}
	return "the host removed or replaced what stood there"
}
