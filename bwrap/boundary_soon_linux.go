package bwrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"pinfold/policy"
)

// pendingBoundary is a watch of the boundary that is being laid while
// bubblewrap works. The supervisor has made its mount points by then, so what
// it sees is the host's doing.
type pendingBoundary struct {
	b      *boundary
	err    error
	filter int  // hangs up once bubblewrap has read its filter, or -1
	read   bool // it has, and has closed it
	init   int  // whose boundary was looked at, or 0
	// let: the stub need not wait with its comparison.
	let  bool
	done chan struct{}
}

// errTooSoon is a look that has to be taken when the stub is there.
var errTooSoon = errors.New("nobody knows yet whose")

// watchSoon begins to lay the watch. bubblewrap reads its filter when all mounts
// are made, and then starts the stub, so that the first look is over by the time
// that one speaks.
func (s *launcher) watchSoon() {
	w := &pendingBoundary{filter: s.data.filterRead(), done: make(chan struct{})}
	s.pending = w
	p, monitor, tty := s.Process, s.monitor.pid, s.setup.TTY != 0
	go func() {
		defer close(w.done)
		if w.b, w.err = newBoundary(p); w.err != nil {
			return
		}
		if w.lookSoon(monitor) != nil {
			w.init = 0
			w.b.forget()
			return
		}
		w.let = !tty && w.shownInside() && p.control.sendGo() == nil
	}()
}

// shownInside reports whether the process that is the stub, or becomes it, is in
// the boundary that was looked at. Then the stub may compare as soon as it has
// greeted, since whatever changes is seen; the command waits for another word.
func (w *pendingBoundary) shownInside() bool {
	family := children(w.init)
	if len(family) != 1 {
		return false
	}
	shown, _ := w.b.shownTo(family[0])
	return shown
}

// lookSoon looks once the filter was read. That it can't isn't the last word.
func (w *pendingBoundary) lookSoon(monitor int) error {
	if w.filter < 0 {
		return errTooSoon
	}
	hung := []unix.PollFd{{Fd: int32(w.filter)}} // POLLHUP is always told, poll(2)
	for {
		if _, err := unix.Poll(hung, -1); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	family := children(monitor)
	if len(family) != 1 {
		return errTooSoon
	}
	w.init = family[0]
	return w.b.look(w.init)
}

// take waits for the watch, which is the caller's then.
func (w *pendingBoundary) take() (*boundary, error) {
	if w == nil {
		return nil, errors.New("internal error: no watch was begun")
	}
	if w.filter >= 0 {
		w.read = wasRead(w.filter)
		_ = unix.Shutdown(w.filter, unix.SHUT_RDWR) // some other bubblewrap may keep it
	}
	<-w.done
	closeFD(&w.filter)
	return w.b, w.err
}

// abandonWatch ends a watch that was never taken.
func (s *launcher) abandonWatch() error {
	w := s.pending
	s.pending = nil
	if w == nil {
		return nil
	}
	b, _ := w.take()
	s.unrun = w.read
	return b.abandon()
}

// wasRead reports whether the other end was read to its end before it was
// closed: one that is closed before that resets the connection (unix(7)).
func wasRead(end int) bool {
	hung := []unix.PollFd{{Fd: int32(end)}}
	if n, err := unix.Poll(hung, 0); err != nil || n == 0 || hung[0].Revents&unix.POLLHUP == 0 {
		return false
	}
	reset, err := unix.GetsockoptInt(end, unix.SOL_SOCKET, unix.SO_ERROR)
	return err == nil && reset == 0
}

// watchBoundary begins to watch. It is called while the stub waits for its Go.
func (s *launcher) watchBoundary(ctx context.Context) error {
	w := s.pending
	s.pending = nil
	b, err := w.take()
	if err == nil {
		err = s.lookInside(b, w)
	}
	if err != nil {
		err = errors.Join(err, b.abandon())
	}
	if errors.Is(err, errEnding) || err != nil && alive(s.family.stubFD) != nil {
		return s.brokeOff(ctx, errClosed)
	}
	if r, ok := errors.AsType[*policy.Refusal](err); ok {
		return r
	}
	if err != nil {
		return fmt.Errorf("cannot watch the boundary: %w", err)
	}
	s.boundary = b
	go b.loop()
	return nil
}

// lookInside takes the first look, unless it was taken early, of the boundary
// that the stub is in.
func (s *launcher) lookInside(b *boundary, w *pendingBoundary) error {
	b.init = s.family.init.pid
	shown, err := b.shownTo(s.family.stub.pid)
	if shown && w.init == b.init {
		s.compares = w.let
		return nil
	}
	if w.let {
		return cmp.Or(err, errors.New("the stub isn't in the one that was looked at"))
	}
	b.forget()
	return b.look(s.family.stub.pid)
}

// shownTo reports whether a process has the root directory that was looked at:
// bubblewrap changes to it when all mounts are made.
func (b *boundary) shownTo(pid int) (bool, error) {
	root, err := openOf(pid, "root", unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return false, err
	}
	defer closeFD(&root)
	have, want := identifyFD(root), identifyFD(b.root)
	return have == want && have.err == 0 && have.mount != 0, nil
}
