package bwrap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"pinfold/event"
	"pinfold/guard"
	"pinfold/plan"
)

// WatchOptions say what a [NameWatch] watches, and whom it tells.
type WatchOptions struct {
	// Watches are names that must not appear: what does is taken away.
	Watches []guard.Watch
	// Paths are names that must stay what they are.
	Paths []string
	// Changed looks whether they did. Its error ends the run.
	Changed func() error
	// Lost ends the run, once at most.
	Lost   func(error)
	Record *plan.Record
	State  string
	Notice func(string)
	Emit   func(event.Event)
}

// NameWatch watches names on the host for a launch of another tier, as the
// boundary of this one does for its own.
type NameWatch struct {
	o      WatchOptions
	names  *names
	taker  *taker
	wake   int
	done   chan struct{}
	failed bool
}

// WatchNames begins to watch. What appeared before is taken away at once.
func WatchNames(o WatchOptions) (*NameWatch, error) {
	w := &NameWatch{o: o, wake: -1, done: make(chan struct{})}
	if err := w.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot watch the boundary: %w", err), w.close())
	}
	go w.loop()
	return w, nil
}

func (w *NameWatch) open() (err error) {
	if w.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return err
	}
	w.taker = &taker{
		watches: w.o.Watches, record: w.o.Record, notice: w.o.Notice, emit: w.o.Emit,
		said: map[string]bool{}, room: newRoom(), keep: filepath.Join(w.o.State, watchDir, "kept"),
	}
	if w.o.Record != nil {
		w.taker.keep = filepath.Join(w.o.Record.Path(), "taken")
	}
	if len(w.o.Watches) > 0 {
		if w.taker.lease, err = newWatchLease(w.o.State, w.taker.keep, w.o.Watches); err != nil {
			return err
		}
	}
	if w.names, err = watchNames(w.o.Paths, w.o.Watches); err != nil {
		return err
	}
	return w.look()
}

// look takes away what appeared, and compares what must stay.
func (w *NameWatch) look() error {
	if l := w.taker.take(); l != nil {
		return l
	}
	return w.o.Changed()
}

// loop waits for changes until the run is over.
func (w *NameWatch) loop() {
	defer close(w.done)
	fds := []unix.PollFd{{Fd: int32(w.wake), Events: unix.POLLIN}, {Fd: int32(w.names.fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(fds, int(heartbeat.Milliseconds()))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			w.lose(fmt.Errorf("cannot wait for changes: %w", err))
			return
		case fds[0].Revents != 0:
			return
		case n > 0:
			w.changed()
		}
		w.taker.beat()
	}
}

func (w *NameWatch) changed() {
	relevant, err := w.names.read()
	if err == nil && relevant {
		if err = w.look(); err == nil {
			err = w.names.arm()
		}
		if err == nil { // what appeared in a directory before that was watched
			err = w.look()
		}
	}
	if err != nil {
		w.lose(err)
	}
}

func (w *NameWatch) lose(err error) {
	if !w.failed {
		w.failed = true
		w.o.Lost(err)
	}
}

// Finish ends the watch, and takes away what appeared last. Call it when
// nothing of the launch is left.
func (w *NameWatch) Finish() error {
	if _, err := unix.Write(w.wake, binary.NativeEndian.AppendUint64(nil, 1)); err != nil {
		return fmt.Errorf("cannot end the watch of the boundary: %w", err)
	}
	<-w.done
	var err error
	if l := w.taker.take(); l != nil {
		err = l
	}
	return errors.Join(err, w.close())
}

func (w *NameWatch) close() error {
	closeFD(&w.wake)
	w.names.close()
	return w.taker.end()
}
