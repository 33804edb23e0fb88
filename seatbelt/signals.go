package seatbelt

import (
	"os"
	"os/signal"
	"sync"

	"golang.org/x/sys/unix"
)

// forwarded are the signals that reach the command, so that its own handlers
// run. SIGTSTP stops both.
var forwarded = []unix.Signal{
	unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT,
	unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH, unix.SIGCONT, unix.SIGTSTP,
}

// forwarder takes this process's signals for one run. Until the program
// inside is about to become the command those that would end a process end
// the launch; then they wait; and from the command's start they are its own.
type forwarder struct {
	ch   chan os.Signal
	quit chan struct{}
	idle sync.WaitGroup

	mu      sync.Mutex
	cancel  func(unix.Signal)
	deliver func(unix.Signal)
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

func isFatal(sig unix.Signal) bool {
	switch sig {
	case unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT:
		return true
	}
	return false
}

// hold is for the moment when the command may be running already.
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

// stop gives the signals back.
func (f *forwarder) stop() {
	if f == nil {
		return
	}
	signal.Stop(f.ch)
	close(f.quit)
	f.idle.Wait()
}

// forward is what becomes of a signal that this process got. The errors are
// those of a command that has just ended.
func (p *Process) forward(sig unix.Signal) {
	switch {
	case sig == unix.SIGTSTP:
		p.suspend()
	case sig == unix.SIGCONT:
		p.relay.enter()
		p.signalGroup(unix.SIGCONT)
	case sig == unix.SIGWINCH && p.relay != nil:
		p.relay.resize() // the kernel tells the command
	default:
		_ = p.Signal(sig)
	}
}

// suspend stops the run's group, then this process; whoever continues this
// process continues both. SIGSTOP because the default action of SIGTSTP can't
// be had back from Go's runtime.
func (p *Process) suspend() {
	p.signalGroup(unix.SIGTSTP)
	p.relay.leave()
	_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	p.relay.enter()
	p.signalGroup(unix.SIGCONT)
}
