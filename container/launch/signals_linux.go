package launch

import (
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// forwarded are the signals that reach the command, so that its own handlers
// run.
var forwarded = []unix.Signal{ //nolint:gochecknoglobals // a table
	unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT,
	unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH, unix.SIGCONT,
}

// forwarder takes this process's signals for one run. Before the stub is let
// go, those that would end a process end the launch; until the command runs
// they wait; from then on they are the command's.
type forwarder struct {
	ch   chan os.Signal
	quit chan struct{}
	idle sync.WaitGroup

	mu      sync.Mutex
	cancel  func(unix.Signal) // while launching
	deliver func(unix.Signal) // once the command runs
	waiting []unix.Signal
}

// maxWaiting bounds the signals that wait for the command.
const maxWaiting = 32

// newForwarder starts taking signals. What the caller ignores stays ignored.
func newForwarder(cancel func(unix.Signal)) *forwarder {
	f := &forwarder{ch: make(chan os.Signal, maxWaiting), quit: make(chan struct{}), cancel: cancel}
	for _, s := range forwarded {
		if !signal.Ignored(s) {
			signal.Notify(f.ch, s)
		}
	}
	f.idle.Go(f.run)
	return f
}

func (f *forwarder) run() {
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

func (f *forwarder) handle(sig unix.Signal) {
	f.mu.Lock()
	deliver := f.deliver
	switch {
	case deliver != nil:
	case f.cancel != nil && isFatal(sig):
		f.cancel(sig)
	case len(f.waiting) < maxWaiting:
		f.waiting = append(f.waiting, sig)
	}
	f.mu.Unlock()
	if deliver != nil {
		deliver(sig)
	}
}

// hold is for the moment when the command may be running already: signals
// wait from here on.
func (f *forwarder) hold() {
	if f == nil {
		return
	}
	f.mu.Lock()
	f.cancel = nil
	f.mu.Unlock()
}

// release delivers what waited, and everything that comes.
func (f *forwarder) release(deliver func(unix.Signal)) {
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

// stop gives the signals back; again is no harm.
func (f *forwarder) stop() {
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

func isFatal(sig unix.Signal) bool {
	switch sig {
	case unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT:
		return true
	}
	return false
}

// forward is what becomes of a signal that this process got. One that asks the
// command to end is noted before it is sent.
func (p *Process) forward(sig unix.Signal) {
	switch {
	case p.terminal && sig == unix.SIGWINCH:
		p.o.Terminal.Resize() // the kernel tells the command
		return
	case p.terminal && sig == unix.SIGCONT:
		p.o.Terminal.Continued(func() { _ = p.Signal(sig) })
		return
	}
	if isFatal(sig) {
		p.mu.Lock()
		p.passed = sig
		p.mu.Unlock()
		p.note(unix.SignalName(sig))
	}
	_ = p.Signal(sig) // the command may just have ended
}
