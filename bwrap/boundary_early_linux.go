package bwrap

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"pinfold/guard"
)

// early is a cover that was put on while everything inside still ran, so that
// what the host has put there lies bare no longer than it takes to notice. It
// proves nothing: when all stand, it is looked at whether it still is where it
// belongs, and who has hold of what lies beneath.
//
// Whoever runs inside may rename what a path leads to at any moment. So nothing
// of it goes by a path but the look at what to cover, which follows no link: the
// rest is done with descriptors, and what came to lie elsewhere, since its place
// was given another name in between, can be taken off there.
type early struct {
	recipe recipe
	fd     int // of what it lies on
	object object
	leaves bool // the host is just replacing it
	top    int  // of what shows, with its mount
	cover  identity
}

func (e *early) close() {
	closeFD(&e.fd)
	closeFD(&e.top)
}

// stopEarly stops everything inside where something of the host's lies bare,
// and covers that meanwhile, if it can be. That it can't is no error: it is
// covered when all stand, as it is where the kernel hasn't got the calls
// (mount_setattr(2), Linux 5.12; a mount of one file of a new tmpfs, 6.15).
func (m *mending) stopEarly(points []*point) {
	var list []*early
	for _, p := range points {
		r, ok := m.launch.recipes[p.path]
		if !ok || m.identify(filepath.Dir(p.path)) != p.up {
			continue
		}
		if e := m.bare(p, r); e != nil {
			list = append(list, e)
		}
	}
	if len(list) == 0 {
		return
	}
	covered := make(chan error)
	go func() { covered <- m.mountEarly(list) }()
	_ = m.stop() // whoever mends a point is told
	<-covered    // what is on shows
	for _, e := range list {
		e.cover = identifyFD(e.top)
		m.early[e.object.path] = e
	}
}

// mountEarly has a child mount all that has been replaced. The kernel tells that
// it has taken a cover off before the name leads to the new thing, up to some
// milliseconds: meanwhile the child gets ready.
func (m *mending) mountEarly(list []*early) error {
	ready, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return err
	}
	defer unix.Close(ready)
	c := m.inside()
	// What the child opens is in this process's table: mounts that have come to
	// lie elsewhere have no name that could be relied on.
	c.flags = unix.CLONE_FILES
	c.await(ready, 2*replaceWait)
	for _, e := range list {
		c.coverEarly(e)
	}
	child, err := c.start()
	if err != nil {
		return err
	}
	for end := time.Now().Add(replaceWait); !m.replaced(list) && time.Now().Before(end); {
		_ = unix.Nanosleep(&unix.Timespec{Nsec: 50_000}, nil) // no event tells of the moment itself
	}
	_, err = unix.Write(ready, binary.NativeEndian.AppendUint64(nil, 1))
	return errors.Join(err, c.wait(child))
}

// replaceWait bounds how long a name may lead to what the host has replaced,
// which is bare and of no use to anybody.
const replaceWait = 50 * time.Millisecond

// replaced looks what has come in the place of what was being replaced, and
// reports whether that is over.
func (m *mending) replaced(list []*early) bool {
	all := true
	for _, e := range list {
		if e.leaves {
			all = m.replacedBy(e) && all
		}
	}
	return all
}

// replacedBy looks for what comes next in one place.
func (m *mending) replacedBy(e *early) bool {
	now, err := openInside(m.root, e.object.path)
	if err != nil {
		return true
	}
	defer unix.Close(now)
	st, ok := bareStat(now, e.object.mount)
	if !ok || st.Nlink == 0 {
		return !ok
	}
	if e.object.dir == (st.Mode&unix.S_IFMT == unix.S_IFDIR) && unix.Dup3(now, e.fd, unix.O_CLOEXEC) == nil {
		e.object.identity, e.leaves = identifyFD(now), false
	}
	return true
}

// bare opens what lies bare at a path, if that is of a kind that can be covered.
func (m *mending) bare(p *point, r recipe) *early {
	fd, err := openInside(m.root, p.path)
	if err != nil {
		return nil
	}
	st, ok := bareStat(fd, p.up.mount)
	if !ok {
		unix.Close(fd)
		return nil
	}
	// Until the child has put the mount here, it is what lies beneath.
	top, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		unix.Close(fd)
		return nil
	}
	return &early{fd: fd, top: top, recipe: r, leaves: st.Nlink == 0, object: object{identity: identifyFD(fd), path: p.path, dir: st.Mode&unix.S_IFMT == unix.S_IFDIR}}
}

// bareStat looks at what a descriptor names: a file or a directory, of a mount
// that is known.
func bareStat(fd int, mount uint64) (st unix.Stat_t, ok bool) {
	id, err := identifyFD(fd), unix.Fstat(fd, &st)
	kind := st.Mode & unix.S_IFMT
	return st, err == nil && id.err == 0 && id.mount == mount && mount != 0 && (kind == unix.S_IFREG || kind == unix.S_IFDIR)
}

// confirm makes an early cover the point's, now that all stand, if it is what was
// asked for and where it belongs, and takes it off otherwise.
func (m *mending) confirm(p *point, r recipe, e *early) (confirmed bool, err error) {
	defer e.close()
	var st unix.Stat_t
	if err := unix.Fstat(e.fd, &st); err != nil {
		return false, err
	}
	got := e.object.identity
	if st.Nlink == 0 || p.up.mount != got.mount || !e.cover.covers(got, r) || m.identify(p.path) != e.cover {
		return false, m.takeOff(e)
	}
	return true, m.settle(p, r, e.fd, e.object, e.cover)
}

// takeOff takes an early cover off again, wherever it is by now. Somebody may
// have opened what shows, which is no reason to leave it.
func (m *mending) takeOff(e *early) error {
	list, err := m.readTable()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(list, func(have guard.MountPoint) bool { return e.is(have.ID) }) {
		return nil // it never was on, or the host has taken it off with the name
	}
	return m.unmountFD(e.top)
}

// unmountFD takes off the very mount that a descriptor is of: umount2(2) has no
// other way for one than its name in /proc, in the host's here, since none of
// the sandbox's knows the process that calls it.
func (m *mending) unmountFD(top int) error {
	proc, err := openDir("/proc")
	if err != nil {
		return err
	}
	defer unix.Close(proc)
	c := m.inside()
	c.add(unix.SYS_OPENAT, uintptr(proc), c.text("self/fd"), unix.O_PATH|unix.O_DIRECTORY).keep = true
	c.add(unix.SYS_FCHDIR, 0).last = true
	c.add(unix.SYS_UMOUNT2, c.text(strconv.Itoa(top)), unix.MNT_DETACH)
	return c.run()
}

// endEarly forgets the early covers that no point has taken over, and takes them
// off if anybody goes on.
func (m *mending) endEarly(goOn bool) {
	for path, e := range m.early {
		if goOn {
			if err := m.takeOff(e); err != nil {
				m.errs = append(m.errs, err)
			}
		}
		e.close()
		delete(m.early, path)
	}
}

// isEarly reports whether a mount of the table's is one of these, which is
// judged when all stand.
func (m *mending) isEarly(id int) bool {
	for _, e := range m.early {
		if e.is(id) {
			return true
		}
	}
	return false
}

// is reports whether a mount of the table's is this one.
func (e *early) is(id int) bool {
	return e.cover.err == 0 && e.cover.mount == uint64(id) && e.cover.mount != e.object.mount
}

// coverEarly makes one early cover.
func (c *calls) coverEarly(e *early) {
	r, none := e.recipe, c.text("")
	const flags = unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	switch {
	case r.kind == showReadOnly:
		// With all that is mounted beneath: somebody inside may just have put a
		// directory here that holds covers, which must not come off by this.
		c.add(unix.SYS_OPEN_TREE, uintptr(e.fd), none, unix.AT_EMPTY_PATH|unix.AT_RECURSIVE|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC).keep = true
		c.place(e.top)
		c.setFlags(e.top, flags)
	case e.object.dir:
		c.newTmpfs(e.top, octal(r.modeFor(true)), flags)
	default:
		c.newTmpfs(e.top, "0700", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
		c.newFile("cover", e.top, r)
		c.add(unix.SYS_OPEN_TREE, uintptr(e.top), c.text("cover"), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC).keep = true
		c.place(e.top)
		c.setFlags(e.top, flags)
	}
	c.add(unix.SYS_MOVE_MOUNT, uintptr(e.top), none, uintptr(e.fd), none, unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// await waits for an event, or for some time: whoever is to tell of it may die.
func (c *calls) await(event int, atMost time.Duration) {
	fds := &unix.PollFd{Fd: int32(event), Events: unix.POLLIN}
	until := unix.NsecToTimespec(atMost.Nanoseconds())
	c.keep = append(c.keep, (*byte)(unsafe.Pointer(fds)), (*byte)(unsafe.Pointer(&until)))
	c.add(unix.SYS_PPOLL, uintptr(unsafe.Pointer(fds)), 1, uintptr(unsafe.Pointer(&until)), 0, 0)
}

// place puts the descriptor that was kept in the place of another.
func (c *calls) place(fd int) {
	c.add(unix.SYS_DUP3, 0, uintptr(fd), unix.O_CLOEXEC).last = true
	c.add(unix.SYS_CLOSE, 0).last = true
}

func (c *calls) setFlags(fd int, flags uint64) {
	attr := &unix.MountAttr{Attr_set: flags}
	at := (*byte)(unsafe.Pointer(attr))
	c.keep = append(c.keep, at)
	c.add(unix.SYS_MOUNT_SETATTR, uintptr(fd), c.text(""), unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, uintptr(unsafe.Pointer(at)), unix.MOUNT_ATTR_SIZE_VER0)
}

// newTmpfs makes one that is mounted nowhere, fsopen(2), Linux 5.2.
func (c *calls) newTmpfs(fd int, mode string, flags uintptr) {
	c.add(unix.SYS_FSOPEN, c.text("tmpfs"), unix.FSOPEN_CLOEXEC).keep = true
	c.place(fd)
	c.add(unix.SYS_FSCONFIG, uintptr(fd), unix.FSCONFIG_SET_STRING, c.text("mode"), c.text(mode), 0)
	c.add(unix.SYS_FSCONFIG, uintptr(fd), unix.FSCONFIG_CMD_CREATE, 0, 0, 0)
	c.add(unix.SYS_FSMOUNT, uintptr(fd), unix.FSMOUNT_CLOEXEC, flags).keep = true
	c.place(fd)
}

// newFile makes the file that hides another one, in a directory.
func (c *calls) newFile(at string, dir int, r recipe) {
	c.add(unix.SYS_OPENAT, uintptr(dir), c.text(at), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o600).keep = true
	if len(r.content) > 0 {
		c.add(unix.SYS_WRITE, 0, c.text(string(r.content)), uintptr(len(r.content))).last = true
	}
	c.add(unix.SYS_FCHMOD, 0, uintptr(r.modeFor(false))).last = true
	c.add(unix.SYS_CLOSE, 0).last = true
}
