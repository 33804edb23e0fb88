package launch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"pinfold/container"
	"pinfold/event"
)

// boundary watches, as long as a launch lasts, that what is mounted in the
// container stays there. Mounts belong to directory entries: when the host
// renames a file over a covered one, as git config and editors do, or removes
// it, the kernel takes the cover away in every namespace (detach_mounts(),
// rename(2)); when it moves one, the cover goes along. Nothing is mended here,
// since an engine's mount namespace is not this process's to change: the run
// ends.
type boundary struct {
	table  *os.File // the container's mount table
	wake   int      // an eventfd: the run is over
	points []Point
	lost   func(error)
	names  Names
	done   chan struct{}
}

// errLost is how the boundary was lost.
type errLost struct{ path, why string }

// errReached is a socket of the host's that can be connected to.
type errReached struct{ errLost }

func (e *errLost) Error() string {
	return fmt.Sprintf("the boundary was lost at %q: %s", e.path, e.why)
}

// LostAt is the place.
func (e *errLost) LostAt() string { return e.path }

// lossIn is the loss of the boundary that an error is about, here or in the
// watch of names, and nil if it is about something else.
func lossIn(err error) error {
	var lost interface {
		error
		LostAt() string
	}
	if !errors.As(err, &lost) {
		return nil
	}
	return lost
}

// watchBoundary begins to watch, while the stub waits for its Go: what changes
// from here on is noticed, and what has changed before the stub compares. A
// supervisor that takes over has the points of the first one.
func (p *Process) watchBoundary(points []Point) error {
	b := &boundary{wake: -1, lost: p.lose, done: make(chan struct{})}
	err := b.open(p.stub.pid)
	if err == nil && points == nil {
		if err = b.find(p.o.Launch.Spec.Mounts); err == nil {
			err = writePoints(p.o.Dirs, b.points)
		}
	} else if err == nil {
		b.points = points
		err = b.compare()
	}
	if err != nil {
		b.close()
		return fmt.Errorf("cannot watch the boundary: %w", err)
	}
	if p.o.Watch != nil {
		var paths []string
		for _, pt := range b.points {
			if pt.Inside {
				paths = append(paths, pt.Target)
			}
		}
		if b.names, err = p.o.Watch(paths, b.compare, p.lose); err != nil {
			b.close()
			return err
		}
	} else if len(p.o.Launch.Watches) > 0 {
		b.close()
		return errors.New("internal error: names are to be watched, and nobody watches")
	}
	p.boundary = b
	go b.loop()
	return p.watchSockets(points != nil)
}

func (b *boundary) open(pid int) (err error) {
	if b.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return err
	}
	// Not in Go's poller, which would take the news for itself.
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/mountinfo", pid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	b.table = os.NewFile(uintptr(fd), "mountinfo")
	return nil
}

// find notes what is mounted, and what stands under it.
func (b *boundary) find(mounts []container.Mount) error {
	now, err := b.mounted()
	if err != nil {
		return err
	}
	for _, m := range mounts {
		id, ok := now[m.Target]
		if !ok {
			return &errLost{m.Target, "it isn't mounted in the container"}
		}
		pt := Point{Target: m.Target, ID: id, Inside: beneathAnother(m.Target, mounts)}
		if pt.Inside {
			var st unix.Stat_t
			if err := unix.Lstat(m.Target, &st); err != nil {
				return fmt.Errorf("cannot look at %q: %w", m.Target, err)
			}
			pt.Dev, pt.Ino = st.Dev, st.Ino
		}
		b.points = append(b.points, pt)
	}
	return nil
}

// beneathAnother reports whether a mount lies in another one that shows the
// host: what the host does to its name then matters.
func beneathAnother(target string, mounts []container.Mount) bool {
	for _, m := range mounts {
		if m.Source == m.Target && strings.HasPrefix(target, m.Target+"/") {
			return true
		}
	}
	return false
}

// mounted are the ids of what is mounted where, the uppermost at each place.
func (b *boundary) mounted() (map[string]int, error) {
	if _, err := b.table.Seek(0, 0); err != nil {
		return nil, err
	}
	list, err := mountinfo.GetMountsFromReader(b.table, nil)
	if err != nil {
		return nil, err
	}
	out := map[string]int{}
	for _, m := range list {
		out[filepath.Clean(m.Mountpoint)] = m.ID
	}
	return out, nil
}

// compare fails for the first mount that isn't what it was.
func (b *boundary) compare() error {
	now, err := b.mounted()
	if err != nil {
		return &errLost{"/", fmt.Sprintf("the container's mounts can't be read: %v", err)}
	}
	if len(now) == 0 {
		return nil // its first process has ended, and with it everything
	}
	for _, pt := range b.points {
		if now[pt.Target] != pt.ID {
			return &errLost{pt.Target, "the host changed what stands there, and what was mounted on it has gone"}
		}
		var st unix.Stat_t
		if !pt.Inside {
			continue
		}
		if err := unix.Lstat(pt.Target, &st); err != nil || st.Dev != pt.Dev || st.Ino != pt.Ino {
			return &errLost{pt.Target, "the host moved it away or put something else there"}
		}
	}
	return nil
}

// loop waits for changes of the mount table (POLLPRI, proc_pid_mountinfo(5)).
func (b *boundary) loop() {
	defer close(b.done)
	fds := []unix.PollFd{{Fd: int32(b.wake), Events: unix.POLLIN}, {Fd: int32(b.table.Fd()), Events: unix.POLLPRI}}
	for {
		_, err := unix.Poll(fds, -1)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			b.lost(fmt.Errorf("cannot wait for changes: %w", err))
			return
		case fds[0].Revents != 0:
			return
		}
		if err := b.compare(); err != nil {
			b.lost(err)
			return
		}
	}
}

// finish ends the watch. Call it when nothing of the container is left.
func (b *boundary) finish() error {
	if b == nil {
		return nil
	}
	_, err := unix.Write(b.wake, binary.NativeEndian.AppendUint64(nil, 1))
	if err != nil {
		return fmt.Errorf("cannot end the watch of the boundary: %w", err)
	}
	<-b.done
	if b.names != nil {
		err = b.names.Finish()
	}
	b.close()
	return err
}

func (b *boundary) close() {
	if b.wake >= 0 {
		unix.Close(b.wake)
		b.wake = -1
	}
	if b.table != nil {
		b.table.Close()
	}
}

// lossOf is how the boundary was lost, if it was.
func (p *Process) lossOf() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.loss
}

// lose ends the run, once.
func (p *Process) lose(err error) {
	p.mu.Lock()
	first := p.loss == nil
	if first {
		p.loss = err
	}
	p.mu.Unlock()
	if !first {
		return
	}
	p.kill(BoundaryLost)
	e := event.Event{Kind: event.Boundary, Action: event.Noticed, Reason: "boundary_lost"}
	if l := (*errLost)(nil); errors.As(err, &l) {
		e.Target = l.path
	}
	if r := (*errReached)(nil); errors.As(err, &r) {
		e.Target, e.Reason = r.path, "socket_in_grant"
	}
	p.o.emit(e)
	if p.o.Lost != nil {
		p.o.Lost(err.Error() + "; the run was ended")
		return
	}
	p.o.notice(err.Error() + "; the run was ended")
}
