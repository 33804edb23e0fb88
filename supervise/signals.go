package supervise

import (
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// forwarded are the signals that reach every command, so that its own handlers
// run.
var forwarded = []unix.Signal{ //nolint:gochecknoglobals // a table
	unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT,
	unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH, unix.SIGCONT,
}

// Forwarder takes this process's signals for one run. Before the stub is let
// go, those that would end a process end the launch; until the command runs
// they wait; from then on they are the command's. A nil one takes none.
type Forwarder struct {
	ch   chan os.Signal
	quit chan struct{}
	idle sync.WaitGroup

	mu      sync.Mutex
	cancel  func(unix.Signal) // while launching
	deliver func(unix.Signal) // once the command runs
	waiting []unix.Signal
}

// maxWaiting bounds the signals that wait for the command: one of each kind
// is more than the kernel itself would keep.
const maxWaiting = 32

// Forward starts taking signals, and more of them than every tier takes. What
// the caller ignores (nohup's SIGHUP) stays ignored: asking for it would bring
// it back to life, here and in what is started from here.
func Forward(cancel func(unix.Signal), more ...unix.Signal) *Forwarder {
	f := &Forwarder{ch: make(chan os.Signal, maxWaiting), quit: make(chan struct{}), cancel: cancel}
	for _, list := range [][]unix.Signal{forwarded, more} {
		for _, s := range list {
			if !signal.Ignored(s) {
				signal.Notify(f.ch, s)
			}
		}
	}
	f.idle.Go(f.run)
	return f
}

func (f *Forwarder) run() {
	for {
		select {
		case <-f.quit:
			return
		case s := <-f.ch:
			if sig, ok := s.(unix.Signal); ok {
				f.handle(sig)
			}
		}
	}
}

func (f *Forwarder) handle(sig unix.Signal) {
	f.mu.Lock()
	deliver := f.deliver
	switch {
	case deliver != nil:
	case f.cancel != nil && AsksToEnd(sig):
		f.cancel(sig)
	case len(f.waiting) < maxWaiting:
		f.waiting = append(f.waiting, sig)
	}
	f.mu.Unlock()
	if deliver != nil {
		deliver(sig)
	}
}

// Hold is for the moment when the command may be running already: signals
// wait from here on.
func (f *Forwarder) Hold() {
	if f == nil {
		return
	}
	f.mu.Lock()
	f.cancel = nil
	f.mu.Unlock()
}

// Release delivers what waited, and everything that comes.
func (f *Forwarder) Release(deliver func(unix.Signal)) {
	if f == nil {
		return
	}
	f.mu.Lock()
	waiting := f.waiting
	f.waiting, f.cancel, f.deliver = nil, nil, deliver
	f.mu.Unlock()
	for _, sig := range waiting {
		deliver(sig)
	}
}

// Stop gives the signals back; again is no harm.
func (f *Forwarder) Stop() {
	if f == nil {
		return
	}
	signal.Stop(f.ch)
	select {
	case <-f.quit:
	default:
		close(f.quit)
	}
	f.idle.Wait()
}

// AsksToEnd reports whether a signal asks a process to end.
func AsksToEnd(sig unix.Signal) bool {
	switch sig {
	case unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT:
		return true
	}
	return false
}
