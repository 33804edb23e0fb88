package bwrap

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"pinfold/plan"
	"pinfold/stub/wire"
)

// cover mounts anew on what stands there now.
func (m *mending) cover(p *point, r recipe, got identity) error {
	fd, err := openInside(m.root, p.path)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	kind := st.Mode & unix.S_IFMT
	switch {
	case kind != unix.S_IFREG && kind != unix.S_IFDIR || got.mount != p.up.mount || got != identifyFD(fd):
		return errors.New("what stands there now can't be covered")
	case st.Nlink == 0:
		// rename(2) takes the mounts off before the name is the new object's.
		return errors.New("what stands there is just being replaced")
	}
	obj := object{identity: got, path: p.path, dir: kind == unix.S_IFDIR}
	err = m.mount(p.path, r, obj.dir, fd)
	now := m.identify(p.path)
	if err == nil && !now.covers(got, r) {
		err = errors.New("it isn't what was asked for, or went off again")
	}
	if err != nil {
		return m.undo(p.path, got, now, err)
	}
	return m.settle(p, r, fd, obj, now)
}

// covers reports whether what a path leads to now is what a recipe asks for,
// over what it led to before.
func (id identity) covers(got identity, r recipe) bool {
	same := id.dev == got.dev && id.ino == got.ino
	return id.err == 0 && id.readOnly && (id.mount != got.mount || id.mount == 0) && same == (r.kind == showReadOnly)
}

// settle makes a cover that is on the point's, once it is proved to hold.
func (m *mending) settle(p *point, r recipe, fd int, obj object, now identity) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	m.dateChange(&st)
	obj.cover = now.mount
	l := &looking{mending: m, point: p, recipe: r, fd: fd, object: obj, cover: now}
	defer l.free()
	if err := l.prove(); err != nil {
		return err
	}
	p.want, m.gone[p.path] = now, true
	if p.kind == wire.CheckAbsent {
		p.kind = wire.CheckEmptyFile
	}
	m.did = append(m.did, p.path)
	m.note(plan.ActionMended, p.path)
	return nil
}

// undo takes a mount off again that was made in part, or on something that the
// host was just replacing, so that it can be tried again.
func (m *mending) undo(path string, before, now identity, cause error) error {
	err := fmt.Errorf("cannot mount on it: %w", cause)
	if now.err == 0 && now.mount != before.mount {
		return errors.Join(err, m.unmount(path))
	}
	return err
}

// mount makes the new mount inside. A cover goes to the very object that was
// looked at, whatever its name is by then; if it has none any more, that fails.
// A mount that shows what it lies on is compared with that afterwards.
func (m *mending) mount(path string, r recipe, dir bool, fd int) error {
	c := m.inside()
	switch {
	case r.kind == showReadOnly:
		var fs unix.Statfs_t
		if err := unix.Fstatfs(fd, &fs); err != nil {
			return err
		}
		c.bindReadOnly(path, path, keptFlags(uintptr(fs.Flags)))
	case dir:
		c.mount("tmpfs", stage, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_RDONLY, "mode="+octal(r.modeFor(true))).arms = true
		c.move(stage, fd)
		c.add(unix.SYS_UMOUNT2, c.text(stage), unix.MNT_DETACH).onlyUndoes = true
	default:
		c.coverFile(fd, r)
	}
	return c.run()
}

// stage is where a cover's file is made: a directory that every sandbox has.
const stage = "/dev/shm"

// inside begins a list of calls in the sandbox's mount namespace.
func (b *boundary) inside() *calls {
	c := &calls{}
	c.add(unix.SYS_SETNS, uintptr(b.userNS), unix.CLONE_NEWUSER)
	c.add(unix.SYS_SETNS, uintptr(b.mountNS), unix.CLONE_NEWNS)
	return c
}

func (c *calls) mount(source, target, kind string, flags uintptr, data string) *call {
	return c.add(unix.SYS_MOUNT, c.text(source), c.text(target), c.text(kind), flags, c.text(data))
}

func (c *calls) bindReadOnly(source, target string, flags uintptr) {
	c.mount(source, target, "", unix.MS_BIND, "")
	c.mount("", target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV|flags, "")
}

// move moves a mount onto what a descriptor names, move_mount(2), Linux 5.2.
func (c *calls) move(from string, fd int) {
	c.add(unix.SYS_MOVE_MOUNT, at0cwd, c.text(from), uintptr(fd), c.text(""), unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// coverFile makes a file on a tmpfs of its own, a mount of it, moves that to
// where it belongs, and takes the tmpfs off again.
func (c *calls) coverFile(fd int, r recipe) {
	c.mount("tmpfs", stage, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700").arms = true
	at := stage + "/cover"
	c.add(unix.SYS_OPENAT, at0cwd, c.text(at), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600).keep = true
	if len(r.content) > 0 {
		c.add(unix.SYS_WRITE, 0, c.text(string(r.content)), uintptr(len(r.content))).last = true
	}
	c.add(unix.SYS_FCHMOD, 0, uintptr(r.modeFor(false))).last = true
	c.add(unix.SYS_CLOSE, 0).last = true
	c.bindReadOnly(at, at, 0)
	c.move(at, fd)
	c.add(unix.SYS_UMOUNT2, c.text(stage), unix.MNT_DETACH).undoes = true
}

// at0cwd is AT_FDCWD as an argument.
const at0cwd = ^uintptr(99)

// keptFlags are the flags that a bind mount must keep, since the user
// namespace may not take them off (mount_namespaces(7)).
func keptFlags(fs uintptr) uintptr { return fs & (unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC) }

// unmount takes a mount of the host's off inside. Nobody inside may use it: the
// kernel refuses one that is in use (EBUSY, umount(2)).
func (m *mending) unmount(path string) error {
	c := m.inside()
	c.add(unix.SYS_UMOUNT2, c.text(path), unix.UMOUNT_NOFOLLOW)
	return c.run()
}
