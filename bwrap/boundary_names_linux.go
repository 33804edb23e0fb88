package bwrap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"pinfold/guard"
	"pinfold/policy"
)

// names watches that what stands at some paths of the host stays: each
// directory on the way to one is watched for what happens to the next name.
type names struct {
	fd     int
	wanted map[string]map[string]bool // names of interest, by directory
	order  []string                   // the directories, parents first
	modes  map[string]bool            // the directories that are watched for changes of mode too
	grows  []guard.Watch              // directories whose new subdirectories are watched too
	grown  int                        // how many are
	dirs   map[int][]string           // by watch descriptor
	buf    []byte
	armed  time.Time // when the watches were last laid
}

// nameEvents: a name comes or goes. None of these is an event of the named file
// as well, so the kernel needn't mark all that it knows of in the directory.
const nameEvents = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR | unix.IN_EXCL_UNLINK

// anyName stands for each name in a directory.
const anyName = "*"

// selfEvents are about the directory itself.
const selfEvents = unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_UNMOUNT | unix.IN_Q_OVERFLOW

// watchNames lays the watch. The kernel goes through all that it knows of each
// directory, which in a large one takes milliseconds
// (fsnotify_set_children_dentry_flags(), fs/notify/fsnotify.c).
func watchNames(paths []string, watches []guard.Watch) (*names, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, inotifyRefusal("fs.inotify.max_user_instances", err)
	}
	n := &names{fd: fd, wanted: map[string]map[string]bool{}, modes: map[string]bool{}, dirs: map[int][]string{}, buf: make([]byte, 32<<10)}
	for _, w := range watches {
		paths = append(paths, w.Path)
		if w.Worktrees {
			n.grows = append(n.grows, w)
			paths = append(paths, filepath.Join(w.Path, anyName))
		}
	}
	for _, p := range paths {
		for ; p != "/"; p = filepath.Dir(p) {
			dir := filepath.Dir(p)
			if n.wanted[dir] == nil {
				n.wanted[dir] = map[string]bool{}
			}
			n.wanted[dir][filepath.Base(p)] = true
		}
	}
	n.order = slices.SortedFunc(maps.Keys(n.wanted), comparePaths)
	if err := n.arm(); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

func inotifyRefusal(knob string, err error) error {
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "watch_failed", Subject: "inotify",
		Why: fmt.Sprintf("cannot watch the boundary: %v", err),
		Fix: "raise " + knob + " with sysctl, or end what uses it up", Err: err,
	}
}

// arm watches the directories that there are. One that this user can't look
// into is another user's to change, and what he takes away there shows in the
// mount table; that its mode changes, or that of one on the way to it, is news
// as well, which the directories above are watched for in a second round.
func (n *names) arm() error {
	n.armed = time.Now()
	for _, w := range n.grows {
		n.grow(w)
	}
	for {
		known := len(n.modes)
		for _, dir := range n.order {
			if err := n.add(dir); err != nil {
				return err
			}
		}
		if len(n.modes) == known {
			return nil
		}
	}
}

// add watches one directory, if it is there.
func (n *names) add(dir string) error {
	fd, err := unix.Openat2(unix.AT_FDCWD, dir, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if errors.Is(err, unix.EACCES) {
		n.watchModes(dir)
	}
	if err != nil {
		return nil // not there, or a link, which is no directory on a canonical path
	}
	defer unix.Close(fd)
	events := uint32(nameEvents)
	if n.modes[dir] {
		events |= unix.IN_ATTRIB
	}
	wd, err := unix.InotifyAddWatch(n.fd, "/proc/self/fd/"+strconv.Itoa(fd), events)
	switch {
	case errors.Is(err, unix.EACCES):
		n.watchModes(dir)
	case err != nil:
		return inotifyRefusal("fs.inotify.max_user_watches", err)
	case !slices.Contains(n.dirs[wd], dir):
		n.dirs[wd] = append(n.dirs[wd], dir)
	}
	return nil
}

// watchModes has everything above a directory watched for changes of mode.
func (n *names) watchModes(dir string) {
	for dir != "/" {
		dir = filepath.Dir(dir)
		n.modes[dir] = true
	}
}

// read takes all that has happened, and says whether any of it is of interest.
func (n *names) read() (relevant bool, err error) {
	for {
		got, err := unix.Read(n.fd, n.buf)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return relevant, nil
		case err != nil || got == 0:
			return relevant, fmt.Errorf("cannot read what happened: %w", err)
		}
		if n.parse(n.buf[:got]) {
			relevant = true
		}
	}
}

// parse goes through struct inotify_event, inotify(7).
func (n *names) parse(b []byte) (relevant bool) {
	for len(b) >= unix.SizeofInotifyEvent {
		wd := int(int32(binary.NativeEndian.Uint32(b)))
		mask := binary.NativeEndian.Uint32(b[unsafe.Offsetof(unix.InotifyEvent{}.Mask):])
		size := binary.NativeEndian.Uint32(b[unsafe.Offsetof(unix.InotifyEvent{}.Len):])
		end := min(uint64(len(b)), unix.SizeofInotifyEvent+uint64(size))
		name, _, _ := bytes.Cut(b[unix.SizeofInotifyEvent:end], []byte{0})
		b = b[end:]
		relevant = n.concerns(wd, mask, string(name)) || relevant
	}
	return relevant
}

func (n *names) concerns(wd int, mask uint32, name string) bool {
	dirs := n.dirs[wd]
	if mask&unix.IN_IGNORED != 0 {
		delete(n.dirs, wd)
		return true
	}
	return mask&selfEvents != 0 || slices.ContainsFunc(dirs, func(dir string) bool { return n.wanted[dir][name] || n.wanted[dir][anyName] })
}

func (n *names) close() {
	if n != nil {
		closeLater(&n.fd)
	}
}

// closeLater closes descriptors that take long to close. An inotify instance
// goes only after a grace period of the kernel's (fsnotify_destroy_group() waits
// in fsnotify_wait_marks_destroyed(), fs/notify/mark.c), which was up to 20 ms
// at the end of each run, and a mount namespace takes all its mounts along
// (put_mnt_ns(), fs/namespace.c). What is under way in a socket that only itself
// leads to is closed by the kernel's collector of those instead
// (net/unix/garbage.c), since Linux 6.9 in a worker of the kernel's; before
// that, and where no sockets can be made, it is closed here.
func closeLater(fds ...*int) {
	var open []int
	for _, fd := range fds {
		if *fd >= 0 {
			open = append(open, *fd)
		}
	}
	if len(open) == 0 {
		return
	}
	if pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err == nil {
		_ = unix.Sendmsg(pair[0], []byte{0}, unix.UnixRights(append(open, pair[:]...)...), nil, 0)
		closeAll(pair[:])
	}
	for _, fd := range fds {
		closeFD(fd)
	}
}
