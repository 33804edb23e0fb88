package bwrap

import (
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"pinfold/policy"
)

// mountLater mounts what bubblewrap wasn't told to. No process inside runs
// anything yet but bubblewrap and the stub, which compares each of them with the
// grant before the command, as it does with all that bubblewrap has mounted.
//
// What covers are mounts of is made in a mount namespace that nobody else has,
// so that it needs no place inside, and nothing that has to be taken off again:
// the kernel lets all processors pass by before it has done that (umount(2)
// waits for RCU), which nobody needs to wait for.
//
// An early look may be of a sandbox that isn't made yet; then all is mounted
// again where the next one looks.
func (b *boundary) mountLater() error {
	if len(b.launch.later) > 0 && isOwnMounts(b.mountNS) {
		return errTooSoon // of a process that is bubblewrap's only later
	}
	run := func(e *errand, of string) error {
		gone := make(chan struct{})
		b.helpers.Go(func() { <-gone })
		if err := e.run(gone); err != nil {
			return laterRefusal(of, err)
		}
		return nil
	}
	kept, covers := b.launch.splitLater()
	for list := range slices.Chunk(covers, atOnce) {
		if err := b.mountCovers(list, kept, run); err != nil {
			return err
		}
		kept = nil
	}
	if len(kept) == 0 {
		return nil
	}
	e := &errand{}
	e.add(unix.SYS_SETNS, uintptr(b.userNS), unix.CLONE_NEWUSER)
	e.add(unix.SYS_SETNS, uintptr(b.mountNS), unix.CLONE_NEWNS)
	e.keepAll(kept)
	return run(e, kept[0].path)
}

// isOwnMounts reports whether a mount namespace is this process's own, which has
// nothing to be covered in. What can't be told counts as that.
func isOwnMounts(ns int) bool {
	var own, st unix.Stat_t
	if unix.Stat("/proc/self/ns/mnt", &own) != nil || unix.Fstat(ns, &st) != nil {
		return true
	}
	return own.Dev == st.Dev && own.Ino == st.Ino
}

// splitLater are what stays as it is, but for being unwritable, and the covers.
func (l *Launch) splitLater() (kept, covers []later) {
	for i := range l.later {
		if l.later[i].own || l.later[i].device {
			kept = append(kept, l.later[i])
		} else {
			covers = append(covers, l.later[i])
		}
	}
	return kept, covers
}

// atOnce is how many covers one helper mounts. Each takes two descriptors
// meanwhile, beside the one that the guard holds, and a process may have few.
const atOnce = 64

// mountCovers mounts covers, and before those what is kept.
func (b *boundary) mountCovers(list, kept []later, run func(*errand, string) error) error {
	e := &errand{}
	e.add(unix.SYS_SETNS, uintptr(b.userNS), unix.CLONE_NEWUSER)
	trees := e.layOut(list)
	e.add(unix.SYS_SETNS, uintptr(b.mountNS), unix.CLONE_NEWNS)
	e.keepAll(kept)
	for i := range list {
		fd, err := list[i].open(b.root)
		if err != nil {
			return laterRefusal(list[i].path, err)
		}
		defer unix.Close(fd)
		e.addOf(trees[i], unix.SYS_MOVE_MOUNT, 0, e.text(""), uintptr(fd), e.text(""), unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	}
	return run(e, list[0].path)
}

// keepAll makes unwritable what is the sandbox's own /proc and /dev. Nobody else
// can put anything at a path there.
func (e *errand) keepAll(list []later) {
	empty := e.text("")
	for i := range list {
		l, path := &list[i], e.text(list[i].path)
		flags := uintptr(remount | unix.MS_NOEXEC)
		if l.own {
			flags |= unix.MS_NODEV
			tree := e.add(unix.SYS_OPEN_TREE, at0cwd, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
			e.addOf(tree, unix.SYS_MOVE_MOUNT, 0, empty, at0cwd, path, unix.MOVE_MOUNT_F_EMPTY_PATH)
			e.addOf(tree, unix.SYS_CLOSE)
		}
		e.add(unix.SYS_MOUNT, empty, path, empty, flags, empty)
	}
}

// remount makes a mount unwritable, and nothing of what it is on.
const remount = unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | unix.MS_NOSUID

// bench is where the tmpfs is mounted that all covers come from: a directory
// that every root has, in a namespace of the helper's own.
const bench = "/proc"

// layOut makes everything to be mounted on a tmpfs of its own, and that
// unwritable, as the mounts of it are from then on: one for each, which belongs
// nowhere yet.
func (e *errand) layOut(list []later) (trees []int) {
	e.add(unix.SYS_UMASK, 0)
	e.add(unix.SYS_UNSHARE, unix.CLONE_NEWNS)
	e.mount("tmpfs", bench, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700")
	for i := range list {
		e.layOutOne(&list[i], e.text(benchName(i)))
	}
	e.mount("", bench, "", remount|unix.MS_NODEV, "")
	for i := range list {
		trees = append(trees, e.add(unix.SYS_OPEN_TREE, at0cwd, e.text(benchName(i)), unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC))
	}
	return trees
}

func benchName(i int) string { return bench + "/" + strconv.Itoa(i) }

func (e *errand) layOutOne(l *later, name uintptr) {
	switch {
	case l.dir:
		e.add(unix.SYS_MKDIRAT, at0cwd, name, uintptr(l.mode))
	case len(l.content) == 0:
		e.add(unix.SYS_MKNODAT, at0cwd, name, uintptr(unix.S_IFREG|l.mode), 0)
	default:
		file := e.add(unix.SYS_OPENAT, at0cwd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, uintptr(l.mode))
		e.addOf(file, unix.SYS_WRITE, 0, e.text(string(l.content)), uintptr(len(l.content)))
		e.addOf(file, unix.SYS_CLOSE)
	}
}

// open opens what a cover is for.
func (l *later) open(root int) (int, error) {
	fd, err := openInside(root, l.path)
	if err != nil {
		return -1, err
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if kind := st.Mode & unix.S_IFMT; err == nil && (kind == unix.S_IFLNK || l.dir != (kind == unix.S_IFDIR)) {
		err = unix.ENOTDIR // or EISDIR: it is of another kind than it was
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// isLater reports whether what a path leads to is decided by what is mounted
// later.
func (l *Launch) isLater(path string) bool {
	for i := range l.later {
		if at := l.later[i].path; path == at || l.later[i].dir && isBelow(path, at) {
			return true
		}
	}
	return false
}

// codeLater is for a launch whose covers couldn't be mounted by this side.
const codeLater = "covers_failed"

func laterRefusal(path string, err error) error {
	fix := doctorFix
	if unix.Getuid() == 0 {
		fix += "; as an ordinary user (--user NAME) bubblewrap can do it all"
	}
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: codeLater, Subject: path,
		Why: fmt.Sprintf("cannot mount what keeps %q from the command: %v", path, err), Fix: fix, Err: err,
	}
}
