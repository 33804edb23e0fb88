package main

import (
	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// A place is what stands at a path inside: the object and the mount it is
// seen through.
type place struct {
	stat unix.Stat_t
	fs   unix.Statfs_t
}

// openPath opens a path without touching what it names. A symbolic link
// anywhere in it, its last name included, is ELOOP: canonical paths hold none,
// so one that appears was put there. It goes step by step, since openat2(2) is
// kept from everything behind the filter, this program included.
func openPath(path string) (int, error) {
	if path == "" || path[0] != '/' {
		return -1, unix.EINVAL
	}
	at, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for rest := path[1:]; err == nil && rest != ""; {
		name, after := firstName(rest)
		var next int
		next, err = step(at, name, after == "")
		unix.Close(at)
		at, rest = next, after
	}
	if err != nil {
		return -1, err
	}
	return at, nil
}

// firstName cuts a path after its first name; after is "" for the last one.
func firstName(path string) (name, after string) {
	for i := range len(path) {
		if path[i] == '/' {
			return path[:i], path[i+1:]
		}
	}
	return path, ""
}

// step opens one name of a directory: the last one, whatever it is but a link,
// or a directory on the way.
func step(at int, name string, last bool) (int, error) {
	flags := unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	if !last {
		flags |= unix.O_DIRECTORY
	}
	fd, err := unix.Openat(at, name, flags, 0)
	if err != nil && (last || err != unix.ENOTDIR) {
		return -1, err
	}
	if !last && err == nil {
		return fd, nil
	}
	// A link is opened itself here, and is no directory on the way.
	var st unix.Stat_t
	if last {
		err = unix.Fstat(fd, &st)
	} else if serr := unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW); serr != nil {
		err = serr
	}
	if st.Mode&unix.S_IFMT == unix.S_IFLNK {
		err = unix.ELOOP
	}
	if err != nil && last {
		unix.Close(fd)
	}
	if err != nil {
		return -1, err
	}
	return fd, nil
}

// check compares one path with the Grant, and says what differs.
func check(c *wire.Check) *wire.Failure {
	differs := func(text string, err error) *wire.Failure {
		return failed(wire.StepCheck, c.Path, text, err)
	}
	fd, err := openPath(c.Path)
	if c.Kind == wire.CheckAbsent {
		if err == unix.ENOENT || err == unix.ENOTDIR || err == unix.EACCES && closed(c.Path) {
			return nil
		}
		if err == nil {
			unix.Close(fd)
		}
		return differs("something stands where nothing may", err)
	}
	if err != nil {
		return differs("cannot be opened", err)
	}
	defer unix.Close(fd)
	var p place
	if err := unix.Fstat(fd, &p.stat); err != nil {
		return differs("cannot be looked at", err)
	}
	if err := unix.Fstatfs(fd, &p.fs); err != nil {
		return differs("its mount cannot be looked at", err)
	}
	if text := p.compare(c); text != "" {
		return differs(text, nil)
	}
	return nil
}

// closed reports whether a path lies in a directory that can't be passed
// through, and that nobody inside can open up since it is mounted read-only:
// uid 0 has no capability here, so a mode of 0600 on root's own directory keeps
// the command out as it does this program.
func closed(path string) bool {
	for end := len(path) - 1; end > 0; end-- {
		if path[end] != '/' {
			continue
		}
		fd, err := openPath(path[:end])
		if err == unix.EACCES {
			continue
		}
		if err != nil {
			return false
		}
		var fs unix.Statfs_t
		err = unix.Fstatfs(fd, &fs)
		unix.Close(fd)
		return err == nil && fs.Flags&unix.ST_RDONLY != 0
	}
	return false
}

// compare is the difference between what stands there and what should, or "".
func (p *place) compare(c *wire.Check) string {
	switch c.Kind {
	case wire.CheckBind:
		return p.compareBind(c)
	case wire.CheckEmptyDir:
		return first(p.readOnly(), p.fresh(c.Dev), p.isKind(unix.S_IFDIR), p.mode(c.Mode), p.size(emptyDirSize))
	case wire.CheckEmptyFile:
		return first(p.readOnly(), p.fresh(c.Dev), p.isKind(unix.S_IFREG), p.mode(c.Mode), p.size(c.Size))
	case wire.CheckPrivateDir:
		return first(p.writable(), p.fresh(c.Dev), p.isKind(unix.S_IFDIR), p.mode(c.Mode))
	case wire.CheckPassDir:
		return first(p.readOnly(), p.fresh(c.Dev), p.isKind(unix.S_IFDIR), p.mode(c.Mode))
	}
	return "unknown check " + itoa(uint64(c.Kind))
}

// compareBind: the host's very object, and unwritable where it has to be. A
// write grant on a file system that is itself read-only is no difference:
// the mount shows less than was granted, as it does on the host. No device
// stands for that of a /proc.
func (p *place) compareBind(c *wire.Check) string {
	if c.Dev == 0 && p.fs.Type == unix.PROC_SUPER_MAGIC {
		c.Dev = p.stat.Dev
	}
	if p.stat.Dev != c.Dev || p.stat.Ino != c.Ino {
		return "is device " + itoa(p.stat.Dev) + " inode " + itoa(p.stat.Ino) +
			" inside, but device " + itoa(c.Dev) + " inode " + itoa(c.Ino) + " in the grant"
	}
	if c.ReadOnly {
		return p.readOnly()
	}
	return ""
}

func (p *place) readOnly() string {
	if p.fs.Flags&unix.ST_RDONLY == 0 {
		return "is writable"
	}
	return ""
}

func (p *place) writable() string {
	if p.fs.Flags&unix.ST_RDONLY != 0 {
		return "is read-only"
	}
	return ""
}

// fresh: a tmpfs, and not the host's own (many a /tmp is one), whose device is
// given; 0 stands for no object there.
func (p *place) fresh(host uint64) string {
	if p.fs.Type != unix.TMPFS_MAGIC || host != 0 && p.stat.Dev == host {
		return "is not covered"
	}
	return ""
}

func (p *place) isKind(want uint32) string {
	if p.stat.Mode&unix.S_IFMT != want {
		return "is of another kind, mode " + octal(uint64(p.stat.Mode))
	}
	return ""
}

func (p *place) mode(want uint32) string {
	if got := p.stat.Mode &^ unix.S_IFMT; got != want {
		return "has mode " + octal(uint64(got)) + ", not " + octal(uint64(want))
	}
	return ""
}

// emptyDirSize is what stat(2) says of an empty directory on a tmpfs: 20 bytes
// (BOGO_DIRENT_SIZE) for each entry, "." and ".." counted.
const emptyDirSize = 40

// size also tells whether a tmpfs directory is empty, unreadable ones
// included.
func (p *place) size(want int64) string {
	if p.stat.Size != want {
		return "holds " + itoa(uint64(p.stat.Size)) + " bytes, not " + itoa(uint64(want))
	}
	return ""
}

// first is the first difference of several.
func first(differences ...string) string {
	for _, d := range differences {
		if d != "" {
			return d
		}
	}
	return ""
}
