package bwrap

import (
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"pinfold/policy"
)

// mountLater mounts what bubblewrap wasn't told to. No process inside runs
// anything yet but bubblewrap and the stub, which compares each of them with the
// grant before the command, as it does with all that bubblewrap has mounted.
func (b *boundary) mountLater() error {
	if len(b.launch.later) == 0 {
		return nil
	}
	c := b.inside()
	c.layOut(b.launch.later)
	for i := range b.launch.later {
		l := &b.launch.later[i]
		fd, err := l.open(b.root)
		if err != nil {
			return laterRefusal(l.path, err)
		}
		defer unix.Close(fd)
		c.cover(l, stageName(i), uintptr(fd))
	}
	c.add(unix.SYS_UMOUNT2, c.text(stage), unix.MNT_DETACH)
	if err := c.run(); err != nil {
		return laterRefusal(b.launch.later[0].path, err)
	}
	return nil
}

// cover mounts what was laid out at a name, or what stands there, on what a
// descriptor names.
func (c *calls) cover(l *later, name string, fd uintptr) {
	from, flags := at0cwd, uintptr(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if l.own {
		from, name, flags = fd, "", flags|unix.AT_EMPTY_PATH
	}
	c.add(unix.SYS_OPEN_TREE, from, c.text(name), flags).keep = true
	c.add(unix.SYS_MOVE_MOUNT, 0, c.text(""), fd, c.text(""), unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH).last = true
	c.add(unix.SYS_CLOSE, 0).last = true
	if l.own {
		c.mount("", l.path, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	}
}

// layOut makes everything to be mounted on a tmpfs of its own, and that
// unwritable, as the mounts of it are from then on.
func (c *calls) layOut(list []later) {
	c.add(unix.SYS_UMASK, 0)
	c.mount("tmpfs", stage, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700")
	for i := range list {
		l := &list[i]
		name := c.text(stageName(i))
		switch {
		case l.own:
		case l.dir:
			c.add(unix.SYS_MKDIRAT, at0cwd, name, uintptr(l.mode))
		case len(l.content) == 0:
			c.add(unix.SYS_MKNODAT, at0cwd, name, uintptr(unix.S_IFREG|l.mode), 0)
		default:
			c.add(unix.SYS_OPENAT, at0cwd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, uintptr(l.mode)).keep = true
			c.add(unix.SYS_WRITE, 0, c.text(string(l.content)), uintptr(len(l.content))).last = true
			c.add(unix.SYS_CLOSE, 0).last = true
		}
	}
	c.mount("", stage, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "")
}

func stageName(i int) string { return stage + "/" + strconv.Itoa(i) }

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

// codeLater is for a launch whose covers couldn't be mounted by this side.
const codeLater = "covers_failed"

func laterRefusal(path string, err error) error {
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: codeLater, Subject: path,
		Why: fmt.Sprintf("cannot mount what keeps %q from the command: %v", path, err), Fix: doctorFix, Err: err,
	}
}
