package bwrap

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/event"
	"pinfold/guard"
	"pinfold/plan"
	"pinfold/stub/wire"
)

// Mending puts back what the host took away: programs there replace files all
// the time, a shell its history when it ends, npm its ~/.npmrc, git config
// the .git/config that is covered here. Between the host's rename and the moment
// when everything inside stands still, the new file can be seen, and used: that
// window can't be closed, only kept short. What is made sure of is that nobody
// inside goes on having it: all stand still, nobody has it open, and only then
// the cover comes back. Where that can't be shown, the run ends.

// settleWait is how long the host may take to put something at the name that
// it has emptied, as editors do that move the old file away first.
const settleWait = 300 * time.Millisecond

// mending is one stop of everything inside, to mend what differs.
type mending struct {
	*boundary
	halt  *stopped
	began time.Time
	end   time.Time
	// gone are the places whose old mounts are given up.
	gone map[string]bool
	did  []string
	// harmless are the mounts that newMounts let be.
	harmless map[int]guard.MountPoint
}

// mendAll makes everything as it was, or says what can't be.
func (b *boundary) mendAll(table bool) *loss {
	if b.same() && !table {
		return nil
	}
	m := &mending{boundary: b, began: time.Now(), gone: map[string]bool{}, harmless: map[int]guard.MountPoint{}}
	defer m.letGo()
	for {
		if table {
			if l := m.newMounts(); l != nil {
				return l
			}
		}
		if l := m.mendPoints(); l != nil {
			return l
		}
		l := m.compareTable()
		if l == nil || m.same() || time.Since(m.began) > stopWait {
			return l
		}
		table = true // the host went on meanwhile
	}
}

// same reports whether every point is what it was.
func (b *boundary) same() bool {
	for i := range b.points {
		if p := &b.points[i]; !p.watched && b.identify(p.path) != p.want {
			return false
		}
	}
	return true
}

func (m *mending) letGo() {
	if m.halt != nil {
		m.halt.letGo()
	}
	took := time.Since(m.began)
	for _, path := range m.did {
		m.emit(event.Event{Kind: event.Boundary, Action: event.Noticed, Target: path, Reason: "cover_restored", Duration: took})
		m.taker.tell(path, fmt.Sprintf("the host replaced %q during the run; it is kept from the command again, which could have used it for %v",
			path, took.Round(100*time.Microsecond)))
	}
}

// stop stops everything inside, once.
func (m *mending) stop() error {
	if m.halt != nil {
		return nil
	}
	var err error
	m.halt, err = stopInside(m.init)
	m.end = time.Now().Add(settleWait)
	return err
}

// mendPoints mends the paths that differ, those above before those beneath.
func (m *mending) mendPoints() *loss {
	for {
		p, err := m.mendRound()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errAbove) && time.Now().Before(m.end):
			time.Sleep(time.Millisecond) // the host is at it still
		default:
			l := p.loss(m.identify(p.path))
			l.why += "; it can't be put right: " + err.Error()
			return l
		}
	}
}

// mendRound answers the first path that can't be mended, and why.
func (m *mending) mendRound() (*point, error) {
	for i := range m.points {
		p := &m.points[i]
		if p.watched || m.identify(p.path) == p.want {
			continue
		}
		if err := m.mendPoint(p); err != nil {
			return p, err
		}
	}
	return nil, nil
}

// errCannot is for what can't be mended, with nothing more to say.
var errCannot = errors.New("too much depends on it")

// errAbove: something that lies above has to be mended first.
var errAbove = errors.New("the host changes what lies above as well")

// errServices: what a process outside has been sent it may send back.
var errServices = errors.New("a service that may be connected to could have been sent hold of it")

// mendPoint mends one path.
func (m *mending) mendPoint(p *point) error {
	r, ok := m.launch.recipes[p.path]
	if !ok {
		return errCannot
	}
	if err := m.stop(); err != nil {
		return err
	}
	// The host may not have finished: it takes a mount off before the name, and
	// an editor moves a file away before it writes the new one. What comes next
	// is the host's, since nobody inside moves, and it doesn't tell.
	for {
		if err := m.surround(p); err != nil {
			return err
		}
		late := time.Now().After(m.end)
		done, err := m.attempt(p, r, late)
		if done || late {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// surround makes sure that a path lies in what it lay in, or in what nobody
// inside can have changed.
func (m *mending) surround(p *point) error {
	up := m.identify(filepath.Dir(p.path))
	switch {
	case up == p.up:
		return nil
	case m.outOfReach(p.path):
		p.up = up
		return nil
	case slices.ContainsFunc(m.points, func(above point) bool {
		return isBelow(p.path, above.path) && !above.watched && m.identify(above.path) != above.want
	}):
		return errAbove
	}
	return errCannot
}

// outOfReach reports whether what a path lies in, as much of it as there is,
// can't be written inside because something above holds: then the host alone
// can have changed it, and nobody inside makes use of it.
func (m *mending) outOfReach(p string) bool {
	dir := filepath.Dir(p)
	id := m.identify(dir)
	for ; notThere(id.err) && dir != "/"; id = m.identify(dir) {
		dir = filepath.Dir(dir)
	}
	return id.err == 0 && id.readOnly && id.mount != 0 && slices.ContainsFunc(m.points, func(above point) bool {
		return isBelow(p, above.path) && above.want.mount == id.mount && m.identify(above.path) == above.want
	})
}

func notThere(err unix.Errno) bool { return err == unix.ENOENT || err == unix.ENOTDIR }

// attempt puts one path right as it is now. It is done, or should be tried
// again as long as there is time.
func (m *mending) attempt(p *point, r recipe, late bool) (done bool, err error) {
	got := m.identify(p.path)
	switch {
	case notThere(got.err) && (p.up.readOnly || m.outOfReach(p.path)):
		p.want, m.gone[p.path] = got, true // nobody inside can make it
		return true, nil
	case got.err == unix.ENOENT:
		if late {
			return m.fill(p, r)
		}
		return false, nil
	case got.err != 0:
		return late, got.err
	case got == p.want:
		return true, nil
	}
	err = m.cover(p, r, got)
	return err == nil, err
}

// fill does with a name that the host has left empty as the launch does with
// those that are empty from the start: one that is kept by default is watched,
// and on one of the policy's or the caller's stands an empty mount point.
func (m *mending) fill(p *point, r recipe) (done bool, err error) {
	if r.rule.Class == guard.ClassGuarded || r.rule.Class == guard.ClassDefault {
		m.taker.watches = append(m.taker.watches, guard.Watch{Path: p.path, Rule: r.rule})
		p.want, m.gone[p.path] = identity{err: unix.ENOENT}, true
		p.watched = true
		return true, nil
	}
	if err := m.makePoint(Ghost{Path: p.path, Dir: len(r.content) == 0}); err != nil {
		return true, fmt.Errorf("nothing stands there any more, so that it could be made from inside: %w", err)
	}
	return m.attempt(p, r, false)
}

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
	if kind != unix.S_IFREG && kind != unix.S_IFDIR || got.mount != p.up.mount || got != identifyFD(fd) {
		return errors.New("what stands there now can't be covered")
	}
	obj := object{identity: got, path: p.path, dir: kind == unix.S_IFDIR}
	if !p.up.readOnly {
		if obj.beneath, err = m.reachable(fd, p.path, &st); err != nil {
			return err
		}
	}
	free, err := m.claim(fd, obj, r)
	if err != nil {
		return err
	}
	defer free()
	err = m.mount(p.path, r, obj.dir, fd)
	now := m.identify(p.path)
	if same := now.dev == got.dev && now.ino == got.ino; err == nil && (now.err != 0 || !now.readOnly || same != (r.kind == showReadOnly)) {
		err = errors.New("it isn't what was asked for")
	}
	if err == nil && now.mount == got.mount && got.mount != 0 {
		err = errors.New("it went off again")
	}
	if err != nil {
		return m.undo(p.path, got, now, err)
	}
	p.want, m.gone[p.path] = now, true
	if p.kind == wire.CheckAbsent {
		p.kind = wire.CheckEmptyFile
	}
	m.did = append(m.did, p.path)
	return m.taker.log("mended", "mount", p.path, "")
}

// reachable looks for ways to an object that could be written through, and
// that outlast the cover: another name of the file, or of one in the directory,
// which could be given to it as long as the cover was off. It answers what lies
// in the directory, of which somebody may have hold as well.
func (m *mending) reachable(fd int, path string, st *unix.Stat_t) (map[guard.FileID]bool, error) {
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		if st.Nlink > 1 {
			return nil, otherName(path)
		}
		return nil, nil
	}
	if m.launch.AllSockets || len(m.launch.Sockets) > 0 {
		return nil, errServices
	}
	return surveyBeneath(fd, path)
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

// claim makes sure that nobody inside has the new object, and for a file that
// nobody at all has: a lease on one that is open elsewhere is refused by the
// kernel, descriptors on their way through a socket counted (fcntl(2)).
func (m *mending) claim(fd int, obj object, r recipe) (free func(), err error) {
	if obj.dir {
		why, err := m.halt.holder(obj)
		if err == nil && why != "" {
			err = errors.New(why)
		}
		return func() {}, err
	}
	file, err := unix.Open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	kind := unix.F_WRLCK
	if r.kind == showReadOnly {
		kind = unix.F_RDLCK // reading is allowed
	}
	for {
		_, err = unix.FcntlInt(uintptr(file), unix.F_SETLEASE, kind)
		if !errors.Is(err, unix.EAGAIN) || time.Now().After(m.end) {
			break
		}
		time.Sleep(time.Millisecond) // the host may still be writing
	}
	if err != nil {
		unix.Close(file)
		return nil, fmt.Errorf("it can't be told whether somebody has it open: %w", err)
	}
	return func() { unix.Close(file) }, nil
}

// mount makes the new mount inside.
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
		c.mount("tmpfs", path, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_RDONLY, "mode="+octal(r.modeFor(true)))
	default:
		c.coverFile(path, r)
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

// coverFile makes a file on a tmpfs of its own, shows it at the path, and
// takes the tmpfs off again.
func (c *calls) coverFile(path string, r recipe) {
	c.mount("tmpfs", stage, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700").arms = true
	at := stage + "/cover"
	c.add(unix.SYS_OPENAT, at0cwd, c.text(at), unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600).keep = true
	if len(r.content) > 0 {
		c.add(unix.SYS_WRITE, 0, c.text(string(r.content)), uintptr(len(r.content))).last = true
	}
	c.add(unix.SYS_FCHMOD, 0, uintptr(r.modeFor(false))).last = true
	c.add(unix.SYS_CLOSE, 0).last = true
	c.bindReadOnly(at, path, 0)
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

// step is the journal's line of what was done.
func step(action, kind, path, detail string) plan.Step {
	return plan.Step{Time: time.Now(), Action: action, Kind: kind, Path: path, Detail: detail}
}
