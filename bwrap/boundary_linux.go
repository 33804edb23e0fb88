package bwrap

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/event"
	"pinfold/guard"
)

// boundary watches, as long as a launch lasts, that what holds goes on to hold.
//
// Mounts belong to directory entries. When the host renames a file over a
// covered one, as git config and editors do, or removes it, the kernel takes
// the cover away (detach_mounts(), rename(2)); when it moves one, the cover goes
// along; and what the host mounts shows up inside, since bubblewrap leaves the
// mounts slaves. So the mount table is polled (POLLPRI, proc_pid_mountinfo(5)),
// the names are watched with inotify(7), and on either everything that the
// stub has compared is compared again. What can't be mended ends the run.
//
// The same watches see the guarded names appear that weren't there at the
// start, which are taken away: see taker.
type boundary struct {
	launch *Launch
	judge  judge
	init   int // the sandbox's pid 1
	root   int // the sandbox's root directory
	table  int // its mount table
	// The sandbox's mount namespace, and the user namespace that owns it.
	mountNS, userNS int

	notify *names
	wake   int // an eventfd: the run is over
	points []point
	mounts map[int]seenMount // by id, what was there at the last look
	taker  *taker

	notice func(string)
	emit   func(event.Event)
	kill   func()

	done chan struct{}
	lost atomic.Pointer[loss]
	errs []error
}

// seenMount is one mount of the sandbox's table.
type seenMount struct {
	guard.MountPoint
	own bool // bubblewrap made it, or mending
}

// loss is how the boundary was lost.
type loss struct {
	code, path, why string
}

// Error says it in one line.
func (l *loss) Error() string { return fmt.Sprintf("the boundary was lost at %q: %s", l.path, l.why) }

// watchBoundary begins to watch. It is called while the stub waits for its Go,
// so that what changes from here on is noticed, and what has changed before is
// what the stub compares.
func (s *launcher) watchBoundary(ctx context.Context) error {
	b, err := newBoundary(s.Process)
	if err != nil && alive(s.family.stubFD) != nil {
		return s.brokeOff(ctx, errClosed)
	}
	if err != nil {
		return fmt.Errorf("cannot watch the boundary: %w", err)
	}
	s.boundary = b
	go b.loop()
	return nil
}

func newBoundary(p *Process) (*boundary, error) {
	b := &boundary{
		launch: p.launch, judge: p.launch.judge, init: p.family.init.pid, root: -1, table: -1, wake: -1, mountNS: -1, userNS: -1, done: make(chan struct{}),
		notice: p.notice, emit: p.emit, kill: func() { p.Kill(BoundaryLost) },
	}
	if err := b.open(p); err != nil {
		b.close()
		return nil, errors.Join(err, b.taker.end())
	}
	return b, nil
}

func (p *Process) notice(text string) {
	if p.o.Notice != nil {
		p.o.Notice(text)
	}
}

func (p *Process) emit(e event.Event) {
	if p.o.Events != nil {
		e.Time, e.Run = time.Now(), p.o.Run
		p.o.Events.Emit(e)
	}
}

// open lays the watches before it takes the first look.
func (b *boundary) open(p *Process) (err error) {
	if b.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return err
	}
	// The stub's own, since it waits; bubblewrap's pid 1 has the same ones.
	pid := p.family.stub.pid
	if b.root, err = unix.Open(procPath(pid, "root"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("cannot open the root of process %d: %w", pid, err)
	}
	// Not an [os.File]: Go's own poller would take the news for itself, which the
	// kernel gives once for each open file.
	if b.table, err = unix.Open(procPath(pid, "mountinfo"), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("cannot open the mount table of process %d: %w", pid, err)
	}
	if err := b.openNamespaces(pid); err != nil {
		return err
	}
	if b.taker, err = newTaker(p); err != nil {
		return err
	}
	b.points = pointsOf(p.launch.Setup.Checks)
	if b.notify, err = watchNames(append(hostPaths(b.points), b.taker.paths()...)); err != nil {
		return err
	}
	for i := range b.points {
		p := &b.points[i]
		p.want, p.up = b.identify(p.path), b.identify(filepath.Dir(p.path))
	}
	return b.firstTable()
}

// openNamespaces opens what mending has to join.
func (b *boundary) openNamespaces(pid int) (err error) {
	if b.mountNS, err = unix.Open(procPath(pid, "ns/mnt"), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("cannot open the mount namespace of process %d: %w", pid, err)
	}
	if b.userNS, err = unix.IoctlRetInt(b.mountNS, unix.NS_GET_USERNS); err != nil {
		return fmt.Errorf("cannot open the owner of the mount namespace of process %d: %w", pid, err)
	}
	return nil
}

// firstTable reads the mount table as bubblewrap made it, and refuses what the
// host has mounted since the guard's look, if that undoes a rule.
func (b *boundary) firstTable() error {
	list, err := b.readTable()
	if err != nil {
		return err
	}
	b.mounts = map[int]seenMount{}
	ours := map[string]bool{}
	for _, m := range b.launch.Plan.Mounts {
		ours[freshNames(b.launch.fresh).path(m.Path)] = true
	}
	for _, m := range list {
		had := b.judge != nil && b.judge.Had(m)
		own := !had && (ours[m.Path] || m.Path == "/proc" || isBelow(m.Path, "/proc") || isBelow(m.Path, "/dev"))
		b.mounts[m.ID] = seenMount{m, own}
		if had || own {
			continue
		}
		if l := b.judgeLate(m); l != nil {
			return l
		}
	}
	return nil
}

// maxTable bounds a mount table: 100,000 mounts, the kernel's own limit
// (/proc/sys/fs/mount-max), of 300 bytes.
const maxTable = 32 << 20

func (b *boundary) readTable() ([]guard.MountPoint, error) {
	if _, err := unix.Seek(b.table, 0, io.SeekStart); err != nil {
		return nil, err
	}
	text := make([]byte, 0, 32<<10)
	for {
		text = slices.Grow(text, 4<<10)
		n, err := unix.Read(b.table, text[len(text):cap(text)])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, err
		case len(text) > maxTable:
			return nil, fmt.Errorf("more than %d bytes", maxTable)
		case n == 0:
			return guard.ReadMounts(bytes.NewReader(text))
		}
		text = text[:len(text)+n]
	}
}

// heartbeat is how often the lease of the watched names is renewed.
const heartbeat = 2 * time.Second

// loop waits for changes until the run is over. It has a thread of its own
// that sleeps in poll(2), so that nothing is between a change and the look.
func (b *boundary) loop() {
	defer close(b.done)
	fds := []unix.PollFd{
		{Fd: int32(b.wake), Events: unix.POLLIN},
		{Fd: int32(b.notify.fd), Events: unix.POLLIN},
		{Fd: int32(b.table), Events: unix.POLLPRI},
	}
	for {
		n, err := unix.Poll(fds, int(heartbeat.Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			b.lose(&loss{"watch_failed", "/", fmt.Sprintf("cannot wait for changes: %v", err)})
			return
		case fds[0].Revents != 0:
			return
		case n > 0:
			b.changed(fds[1].Revents != 0, fds[2].Revents != 0)
		}
		b.taker.beat()
	}
}

// changed looks at what has changed, in the order in which it hurts.
func (b *boundary) changed(names, table bool) {
	if names {
		relevant, err := b.notify.read()
		if err != nil {
			b.lose(&loss{"watch_failed", "/", err.Error()})
			return
		}
		if !relevant && !table {
			return
		}
	}
	if b.lost.Load() == nil {
		if l := b.mendAll(table); l != nil {
			b.lose(l)
		}
	}
	b.takeAll()
}

// takeAll takes away what appeared under watched names, and watches what
// directories have appeared on the way to them. What appears between the two
// is seen the second time.
func (b *boundary) takeAll() {
	for range 2 {
		if err := b.notify.arm(); err != nil {
			b.lose(&loss{"watch_failed", "/", err.Error()})
			return
		}
		if l := b.taker.take(); l != nil {
			b.lose(l)
			return
		}
	}
}

// newMounts judges what the host has mounted since the last look, and takes off
// inside what must not show there.
func (m *mending) newMounts() *loss {
	list, err := m.readTable()
	if err != nil {
		return tableLoss(err)
	}
	for _, p := range list {
		if have, known := m.mounts[p.ID]; known && have.Is(p) {
			continue
		}
		if !m.shows(p) {
			continue // as long as that is so: it is looked at again the next time
		}
		l := m.judgeShown(p)
		if l == nil {
			m.harmless[p.ID] = p
			continue
		}
		if err := m.unmount(p.Path); err != nil {
			l.why += fmt.Sprintf("; it can't be taken off inside: %v", err)
			return l
		}
		m.emit(event.Event{Kind: event.Boundary, Action: event.Noticed, Target: p.Path, Reason: "late_mount_removed", Duration: time.Since(m.began)})
		m.taker.tell(p.Path, fmt.Sprintf("%q: %s; inside, it was taken off again", p.Path, l.why))
	}
	return nil
}

func tableLoss(err error) *loss {
	return &loss{"watch_failed", "/", fmt.Sprintf("cannot read the mount table: %v", err)}
}

// compareTable looks for mounts of bubblewrap's that have gone and weren't
// mended. What has come since newMounts isn't noted: the next look judges it.
func (m *mending) compareTable() *loss {
	list, err := m.readTable()
	if err != nil {
		return tableLoss(err)
	}
	now := make(map[int]seenMount, len(list))
	for _, p := range list {
		switch have, known := m.mounts[p.ID]; {
		case known && have.Is(p):
			now[p.ID] = have
		case m.isMended(p):
			now[p.ID] = seenMount{p, true}
		case m.harmless[p.ID].Is(p):
			now[p.ID] = seenMount{p, false}
		}
	}
	for id, have := range m.mounts {
		if still, ok := now[id]; (!ok || !have.Is(still.MountPoint)) && have.own && !m.gone[have.Path] {
			return &loss{"cover_detached", have.Path, "the host removed or replaced what was mounted over"}
		}
	}
	m.mounts = now
	return nil
}

// isMended reports whether a mount was made by mending.
func (m *mending) isMended(p guard.MountPoint) bool {
	return slices.ContainsFunc(m.points, func(have point) bool {
		return have.path == p.Path && have.want.mount == uint64(p.ID)
	})
}

// judgeLate says what is wrong with a mount that the host has made, if
// anything is. One that nothing inside can see or write is nobody's business.
func (b *boundary) judgeLate(m guard.MountPoint) *loss {
	if !b.shows(m) {
		return nil
	}
	return b.judgeShown(m)
}

func (b *boundary) judgeShown(m guard.MountPoint) *loss {
	if b.judge != nil {
		if rule, bad := b.judge.Betrays(m); bad {
			return &loss{"late_mount", m.Path, fmt.Sprintf("the host mounted something there that shows what %q denies", rule.Text)}
		}
	}
	if slices.ContainsFunc(b.points, func(p point) bool { return p.path == m.Path || isBelow(p.path, m.Path) }) {
		return &loss{"late_mount", m.Path, "the host mounted something over what is kept from the command there"}
	}
	if !m.ReadOnly && b.writable(m.Path) {
		return &loss{"late_mount", m.Path, "the host mounted something there that could be written from inside"}
	}
	return nil
}

// shows reports whether a mount is what its path leads to inside. Whatever
// can't be told counts as shown.
func (b *boundary) shows(m guard.MountPoint) bool {
	id := b.identify(m.Path)
	return id.err == 0 && (id.mount == 0 || id.mount == uint64(m.ID)) || id.err != 0 && id.err != unix.ENOENT && id.err != unix.ENOTDIR && id.err != unix.EACCES
}

// writable reports whether a mount at a path could be written: Landlock, where
// it is in force, allows that beneath the write grants alone.
func (b *boundary) writable(path string) bool {
	l := b.launch.Setup.Landlock
	if !l.Enabled {
		return true
	}
	for _, w := range append(l.Writable, l.WriteFiles...) {
		if path == w || isBelow(path, w) {
			return true
		}
	}
	return false
}

// lose ends the run, once.
func (b *boundary) lose(l *loss) {
	if !b.lost.CompareAndSwap(nil, l) {
		return
	}
	b.kill()
	b.emit(event.Event{Kind: event.Boundary, Action: event.Noticed, Target: l.path, Reason: l.code})
	b.notice(l.Error() + "; the run was ended")
}

// lossOf is how the boundary was lost, if it was.
func (b *boundary) lossOf() *loss {
	if b == nil {
		return nil
	}
	return b.lost.Load()
}

// finish ends the watch, and takes away what appeared last. Call it when
// nothing of the sandbox is left.
func (b *boundary) finish() error {
	if b == nil {
		return nil
	}
	if _, err := unix.Write(b.wake, binary.NativeEndian.AppendUint64(nil, 1)); err != nil {
		return fmt.Errorf("cannot end the watch of the boundary: %w", err)
	}
	<-b.done
	if l := b.taker.take(); l != nil {
		b.errs = append(b.errs, l)
	}
	b.close()
	return errors.Join(append(b.errs, b.taker.end())...)
}

func (b *boundary) close() {
	closeFD(&b.root)
	closeFD(&b.wake)
	closeFD(&b.mountNS)
	closeFD(&b.userNS)
	closeFD(&b.table)
	b.notify.close()
}
