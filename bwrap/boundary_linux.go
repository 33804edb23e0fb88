package bwrap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/event"
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
	// helpers are those that mount what bubblewrap doesn't, until they are gone.
	helpers sync.WaitGroup
	points  []point
	mounts  map[int]seenMount // by id, what was there at the last look
	noted   map[string]bool   // places of the host's mounts that were let be
	taker   *taker

	notice, lostWord func(string)
	emit             func(event.Event)
	kill             func()
	// makePoint makes a mount point on the host, which the run's end takes away.
	makePoint func(Ghost) error

	done chan struct{}
	lost atomic.Pointer[loss]
	errs []error
}

// loss is how the boundary was lost.
type loss struct {
	code, path, why string
}

// Error says it in one line.
func (l *loss) Error() string { return fmt.Sprintf("the boundary was lost at %q: %s", l.path, l.why) }

// LostAt is the place. It tells a loss from an error of the watch itself.
func (l *loss) LostAt() string { return l.path }

// newBoundary lays the watches. What changes from here on is noticed, and what
// has changed before is what the stub compares.
func newBoundary(p *Process) (*boundary, error) {
	b := &boundary{
		launch: p.launch, judge: p.launch.judge, root: -1, table: -1, wake: -1, mountNS: -1, userNS: -1, done: make(chan struct{}), noted: map[string]bool{},
		notice: p.notice, lostWord: p.lost, emit: p.emit, kill: func() { p.Kill(BoundaryLost) },
		makePoint: func(g Ghost) error { return p.leases.Make(g) },
	}
	if err := b.lay(p); err != nil {
		return nil, errors.Join(err, b.abandon())
	}
	return b, nil
}

func (p *Process) notice(text string) {
	if p.o.Notice != nil {
		p.o.Notice(text)
	}
}

// lost says why the run is ended.
func (p *Process) lost(text string) {
	if p.o.Lost == nil {
		p.notice(text)
		return
	}
	p.o.Lost(text)
}

func (p *Process) emit(e event.Event) {
	if p.o.Events != nil {
		e.Time, e.Run = time.Now(), p.o.Run
		p.o.Events.Emit(e)
	}
}

func (b *boundary) lay(p *Process) (err error) {
	if b.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return err
	}
	b.points = pointsOf(p.launch)
	if b.notify, err = watchNames(hostPaths(b.points), p.launch.Watches); err != nil {
		return err
	}
	b.taker, err = newTaker(p)
	return err
}

// look takes the first look, at what a process of the sandbox sees.
func (b *boundary) look(pid int) (err error) {
	if b.root, err = openOf(pid, "root", unix.O_PATH|unix.O_DIRECTORY); err != nil {
		return err
	}
	if err := b.openNamespaces(pid); err != nil {
		return err
	}
	laid := make(chan error, 1)
	go func() { laid <- b.mountLater() }()
	ups := map[string]identity{} // most of what is covered has neighbours
	b.lookAt(ups, func(path string) bool { return !b.launch.isLater(path) })
	if err := <-laid; err != nil {
		return err
	}
	// What has been mounted by now is no news; what the host has changed by now is
	// found when the stub compares, which comes after this. Not an [os.File]: Go's
	// own poller would take the news for itself, which the kernel gives once for
	// each open file.
	if b.table, err = openOf(pid, "mountinfo", unix.O_RDONLY); err != nil {
		return err
	}
	b.lookAt(ups, b.launch.isLater)
	return b.firstTable()
}

// lookAt notes what some of the points are.
func (b *boundary) lookAt(ups map[string]identity, which func(path string) bool) {
	for i := range b.points {
		p := &b.points[i]
		if !which(p.path) {
			continue
		}
		dir := filepath.Dir(p.path)
		if _, known := ups[dir]; !known {
			ups[dir] = b.identify(dir)
		}
		p.want, p.up = b.identify(p.path), ups[dir]
	}
}

// errEnding is a process that ends while it is looked at: it loses its root and
// its namespaces before its pidfd tells that it has.
var errEnding = errors.New("it is ending")

// openOf opens something of a process's.
func openOf(pid int, name string, flags int) (int, error) {
	fd, err := unix.Open(procPath(pid, name), flags|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ESRCH) {
		err = errEnding
	}
	if err != nil {
		return -1, fmt.Errorf("cannot open %s of process %d: %w", name, pid, err)
	}
	return fd, nil
}

// openNamespaces opens what mending has to join.
func (b *boundary) openNamespaces(pid int) (err error) {
	if b.mountNS, err = openOf(pid, "ns/mnt", unix.O_RDONLY); err != nil {
		return err
	}
	if b.userNS, err = unix.IoctlRetInt(b.mountNS, unix.NS_GET_USERNS); err != nil {
		return fmt.Errorf("cannot open the owner of the mount namespace of process %d: %w", pid, err)
	}
	return nil
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
	if names {
		b.take()
	}
	for began := time.Now(); b.lost.Load() == nil; {
		b.mendAll(table)
		if err := b.notify.arm(); err != nil {
			b.lose(&loss{"watch_failed", "/", err.Error()})
		}
		// What came to be in a directory before that was watched has no event.
		if table = false; b.same() {
			break
		}
		if time.Since(began) > 2*stopWait {
			b.lose(&loss{"watch_failed", "/", "the host changes what is covered faster than it can be looked at"})
		}
	}
	b.take()
}

// take takes away what appeared under watched names.
func (b *boundary) take() {
	if l := b.taker.take(); l != nil {
		b.lose(l)
	}
}

// lose ends the run, once.
func (b *boundary) lose(l *loss) {
	if !b.lost.CompareAndSwap(nil, l) {
		return
	}
	b.kill()
	b.emit(event.Event{Kind: event.Boundary, Action: event.Noticed, Target: l.path, Reason: l.code})
	b.lostWord(l.Error() + "; the run was ended")
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

// abandon ends a watch that nobody has waited for.
func (b *boundary) abandon() error {
	if b == nil {
		return nil
	}
	b.close()
	return b.taker.end()
}

func (b *boundary) close() {
	b.helpers.Wait()
	closeFD(&b.wake)
	fds := []*int{&b.root, &b.table, &b.mountNS, &b.userNS}
	if b.notify != nil {
		fds = append(fds, &b.notify.fd)
	}
	closeLater(fds...)
}

// forget closes what the look has opened.
func (b *boundary) forget() {
	closeFD(&b.root)
	closeFD(&b.mountNS)
	closeFD(&b.userNS)
	closeFD(&b.table)
}
