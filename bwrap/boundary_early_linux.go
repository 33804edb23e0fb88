package bwrap

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
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
	fd     int // of what it lies on
	object object
	mount  uint64 // 0 for none
	gone   chan struct{}
}

func (e *early) close() {
	<-e.gone
	closeFD(&e.fd)
}

// is reports whether a mount of the table's is this one.
func (e *early) is(id int) bool { return e.mount != 0 && e.mount == uint64(id) }

// stopEarly stops everything inside where something of the host's lies bare,
// and covers that meanwhile, if it can be. That it can't is no error: it is
// covered when all stand, as it is where the kernel hasn't got the calls
// (mount_setattr(2), Linux 5.12).
//
// To send a signal takes less time than to mount, so those that a signal stops
// are sent it first. The kernel tells that it has taken a cover off before the
// name leads to the new thing, up to some milliseconds; what is bare till then is
// of no use to anybody. So it is looked again and again while all are stopped.
func (m *mending) stopEarly() {
	for m.next < len(m.points) && len(m.bare) == 0 {
		m.lookNext()
	}
	if len(m.bare) > 0 {
		_ = m.stop() // whoever mends a point is told
	}
	m.bare = nil
}

// lookNext looks whether something lies bare at the next point.
func (m *mending) lookNext() {
	p := &m.points[m.next]
	m.next++
	if _, ok := m.launch.recipes[p.path]; !ok || p.watched || m.identify(p.path) == p.want || m.identify(filepath.Dir(p.path)) != p.up {
		return
	}
	if fd, _, ok := m.openBare(p); ok {
		unix.Close(fd)
		m.bare = append(m.bare, p)
	}
}

// coverEarly covers what can be covered now, and leaves what the host is just
// replacing.
func (m *mending) coverEarly() {
	for m.next < len(m.points) {
		m.lookNext()
	}
	m.bare = slices.DeleteFunc(m.bare, func(p *point) bool {
		fd, st, ok := m.openBare(p)
		if !ok {
			return true
		}
		if st.Nlink == 0 {
			unix.Close(fd)
			return false
		}
		e := &early{fd: fd, object: object{identity: identifyFD(fd), path: p.path, dir: st.Mode&unix.S_IFMT == unix.S_IFDIR}, gone: make(chan struct{})}
		m.early[p.path] = e
		_ = m.mountEarly(e, m.launch.recipes[p.path]) // what is on shows
		return true
	})
}

// openBare opens what lies bare at a path: a file or a directory, in what the
// path has lain in.
func (m *mending) openBare(p *point) (fd int, st unix.Stat_t, ok bool) {
	fd, err := openInside(m.root, p.path)
	if err != nil {
		return -1, st, false
	}
	id := identifyFD(fd)
	err = unix.Fstat(fd, &st)
	kind := st.Mode & unix.S_IFMT
	if err != nil || id.err != 0 || id.mount != p.up.mount || id.mount == 0 || kind != unix.S_IFREG && kind != unix.S_IFDIR {
		unix.Close(fd)
		return -1, st, false
	}
	return fd, st, true
}

// mountEarly makes one early cover, and notes which mount it is.
func (m *mending) mountEarly(e *early, r recipe) error {
	x := &errand{}
	x.add(unix.SYS_SETNS, uintptr(m.userNS), unix.CLONE_NEWUSER)
	none, tree := x.text(""), 0
	if r.kind == hideAll {
		tree = x.layOut([]later{{path: e.object.path, dir: e.object.dir, mode: r.modeFor(e.object.dir), content: r.content}})[0]
	}
	x.add(unix.SYS_SETNS, uintptr(m.mountNS), unix.CLONE_NEWNS)
	if r.kind == showReadOnly {
		// With all that is mounted beneath: somebody inside may just have put a
		// directory here that holds covers, which must not come off by this.
		tree = x.add(unix.SYS_OPEN_TREE, uintptr(e.fd), none, unix.AT_EMPTY_PATH|unix.AT_RECURSIVE|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	}
	attr := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	x.addOf(tree, unix.SYS_MOUNT_SETATTR, 0, none, unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, x.pointer(unsafe.Pointer(attr)), unix.MOUNT_ATTR_SIZE_VER0)
	st := &unix.Statx_t{}
	x.addOf(tree, unix.SYS_STATX, 0, none, unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, x.pointer(unsafe.Pointer(st)))
	x.addOf(tree, unix.SYS_MOVE_MOUNT, 0, none, uintptr(e.fd), none, unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	err := x.run(e.gone)
	if st.Mask&unix.STATX_MNT_ID != 0 {
		e.mount = st.Mnt_id
	}
	return err
}

// confirm makes an early cover the point's, now that all stand, if it is what was
// asked for and where it belongs, and takes it off otherwise.
func (m *mending) confirm(p *point, r recipe, e *early) (confirmed bool, err error) {
	defer e.close()
	var st unix.Stat_t
	if err := unix.Fstat(e.fd, &st); err != nil {
		return false, err
	}
	got, now := e.object.identity, m.identify(p.path)
	if st.Nlink == 0 || p.up.mount != got.mount || e.mount == 0 || now.mount != e.mount || !now.covers(got, r) {
		return false, m.takeOff(e)
	}
	return true, m.settle(p, r, e.fd, e.object, now)
}

// takeOff takes an early cover off again, wherever it is by now, unless it never
// was on, or the host has taken it off with the name. Somebody may have opened
// what shows, which is no reason to leave it.
func (m *mending) takeOff(e *early) error {
	list, err := m.readTable()
	if err != nil {
		return err
	}
	i := slices.IndexFunc(list, func(have guard.MountPoint) bool { return e.is(have.ID) })
	if i < 0 {
		return nil
	}
	top, err := openInside(m.root, list[i].Path)
	if err != nil {
		return err
	}
	defer unix.Close(top)
	if identifyFD(top).mount != e.mount {
		return fmt.Errorf("cannot take the cover off that came to be at %q: something is mounted over it", list[i].Path)
	}
	return m.unmountFD(top)
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
