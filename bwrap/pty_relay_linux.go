package bwrap

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// relay carries between the operator's terminal and the one made inside. The
// outer one is raw while this process is in its foreground, so that keys mean
// what the inner one makes of them: Ctrl-C interrupts once, there.
type relay struct {
	t      terminals
	master *os.File
	wake   int // eventfd: look again
	poll   int // epoll

	mu       sync.Mutex
	saved    *unix.Termios // the outer terminal's own modes while it is raw
	finished bool
	away     bool // between leave and comeBack
	busy     atomic.Bool
	later    bool // the keys are another program's until the command asks
	typing   bool // carryInput was started

	moved   atomic.Int64  // bytes carried, both ways
	drained chan struct{} // closed after the last output
	quiet   chan struct{} // closed after the last input
}

// chunk is what is carried at once; all that the relay holds is two of them.
const chunk = 32 << 10

// newRelay prepares a relay; nothing is carried before start.
func newRelay(t terminals, master *os.File) (*relay, error) {
	r := &relay{t: t, master: master, wake: -1, poll: -1, drained: make(chan struct{}), quiet: make(chan struct{})}
	r.later = t.bits&wire.TTYLater != 0
	if t.in < 0 {
		return r, nil
	}
	if err := r.watchInput(); err != nil {
		r.closeFDs()
		return nil, fmt.Errorf("cannot watch the terminal: %w", err)
	}
	return r, nil
}

// watchInput asks for an event each time something is typed, once: in the
// background it is for somebody else and stays unread. The descriptor isn't
// made non-blocking, since the shell shares that flag.
func (r *relay) watchInput() (err error) {
	if r.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return err
	}
	if r.poll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	in := &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(r.t.in)}
	if err := unix.EpollCtl(r.poll, unix.EPOLL_CTL_ADD, r.t.in, in); err != nil {
		return err
	}
	wake := &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(r.wake)}
	return unix.EpollCtl(r.poll, unix.EPOLL_CTL_ADD, r.wake, wake)
}

// start carries what the command writes, which may come before anybody here
// knows that it runs.
func (r *relay) start() { go r.carryOutput() }

// open takes the terminal and carries what is typed, once the command is in the
// foreground of the one inside. Before that a key such as Ctrl-Z would stop
// whoever is, the stub, whom the kernel lets nobody stop: it would be lost. Left
// with the outer terminal it is a signal for this process, and waits.
func (r *relay) open() {
	if !r.hasInput() {
		return
	}
	r.typing = true
	r.enter()
	go r.carryInput()
}

// hasInput reports whether the command's standard input is a terminal. A nil
// relay has none.
func (r *relay) hasInput() bool { return r != nil && r.t.in >= 0 }

// enter makes the outer terminal raw if this process is in its foreground. A
// terminal found in line mode was given back to a shell meanwhile, and what
// is set then is what to restore.
func (r *relay) enter() bool {
	if !r.hasInput() {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.enterLocked()
}

func (r *relay) enterLocked() bool {
	if r.finished || r.later || r.away || !isForeground(r.t.in) {
		return false
	}
	modes, err := unix.IoctlGetTermios(r.t.in, unix.TCGETS)
	if err != nil {
		return false
	}
	if r.saved == nil || modes.Lflag&unix.ICANON != 0 {
		if !r.makeRaw(modes) {
			return false
		}
		r.nudge()
	}
	return true
}

// makeRaw changes modes that were found in the foreground, and reports whether
// it still is: a shell may have taken the terminal back meanwhile. If what is
// set there then is this one's, and not yet the shell's, it is undone.
func (r *relay) makeRaw(modes *unix.Termios) bool {
	raw := rawModes(*modes, r.isShared())
	if setModes(r.t.in, raw, true) != nil {
		return false
	}
	if isForeground(r.t.in) {
		r.saved = modes
		return true
	}
	r.saved = nil
	if now, err := unix.IoctlGetTermios(r.t.in, unix.TCGETS); err == nil && *now == *raw {
		_ = setModes(r.t.in, modes, true) // a terminal that has gone needs none
	}
	return false
}

// isShared reports whether the output to the outer terminal is another
// program's, in a pipeline.
func (r *relay) isShared() bool { return r.t.bits&wire.TTYLater != 0 }

// waits reports whether the command hasn't used its terminal yet.
func (r *relay) waits() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.later
}

// want is for a command that uses its terminal for the first time.
func (r *relay) want() {
	r.mu.Lock()
	r.later = false
	r.mu.Unlock()
}

// leave gives the outer terminal back as it was, until comeBack: what is typed
// meanwhile is the shell's, though this process may be in front for a moment
// longer. In the background there is nothing to give back: whoever is in front
// has set it up for himself.
func (r *relay) leave() {
	if !r.hasInput() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = true
	r.restore(true)
}

// comeBack ends what leave began, takes the terminal if it is there to be
// taken, and continues the command before any key is carried: a Ctrl-Z that
// finds a command standing waits, and is lost when that is continued
// (signal(7), "Stop and continue").
func (r *relay) comeBack(resume func()) {
	if !r.hasInput() {
		r.resize()
		resume()
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = false
	r.enterLocked()
	r.resize()
	resume()
}

// restore gives the terminal its modes back: after what was written is out, or
// at once where nobody reads that.
func (r *relay) restore(wait bool) {
	if r.saved != nil && isForeground(r.t.in) {
		_ = setModes(r.t.in, r.saved, wait) // a terminal that has gone needs none
	}
	r.saved = nil
}

// settle waits until what the command wrote before it was stopped is out, so
// that it doesn't come in the middle of what the shell says. Nothing tells
// when the other goroutine has read it all, so it is looked a few times.
func (r *relay) settle() {
	if r == nil {
		return
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 50 {
		pending := 0
		_ = onFD(r.master, func(fd int) (err error) {
			pending, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
			return err
		})
		if pending == 0 && !r.busy.Load() {
			return
		}
		<-tick.C
	}
}

// nudge makes carryInput look again.
func (r *relay) nudge() {
	one := [8]byte{1} // any value: an eventfd counts
	_, _ = unix.Write(r.wake, one[:])
}

// resize gives the inner terminal the outer one's size. The kernel sends the
// foreground job inside SIGWINCH if it differs.
func (r *relay) resize() {
	if r == nil {
		return
	}
	ws, err := unix.IoctlGetWinsize(r.t.out, unix.TIOCGWINSZ)
	if err != nil {
		return
	}
	_ = onFD(r.master, func(fd int) error { return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, ws) })
}

// carryOutput ends with everything written: a master is read to its end, EIO,
// which comes once the last process inside that holds the terminal has gone.
// An operator's terminal that has gone swallows the rest, so that the command
// isn't held up by it.
func (r *relay) carryOutput() {
	defer close(r.drained)
	buf := make([]byte, chunk)
	gone := false
	for {
		n, err := r.master.Read(buf)
		r.busy.Store(true)
		r.moved.Add(int64(n))
		if n > 0 && !gone {
			gone = writeAll(r.t.out, r.asSeen(buf[:n])) != nil
		}
		r.busy.Store(false)
		if err != nil {
			return
		}
	}
}

// asSeen takes out again what the inner terminal put into line ends if the
// outer one, not being raw or shared, will do it too.
func (r *relay) asSeen(b []byte) []byte {
	r.mu.Lock()
	raw := r.saved != nil
	r.mu.Unlock()
	if raw && !r.isShared() || !r.hasInput() {
		return b
	}
	return bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
}

// A shell puts its job in front a moment after the line that says so was
// typed, and tells a job that was running nothing: what is typed next may come
// first. So after a key in the background it is looked again, a few times.
const (
	lookAgain  = 50 // milliseconds
	looksAgain = 10
)

// carryInput carries what is typed while this process is in the foreground.
func (r *relay) carryInput() {
	defer close(r.quiet)
	buf := make([]byte, chunk)
	looks, timeout := 0, -1
	for {
		typed, err := r.await(timeout)
		if err != nil || r.isFinished() {
			return
		}
		if r.enter() {
			looks, timeout = 0, -1
			if r.carryTyped(buf) != nil {
				return
			}
			continue
		}
		if typed {
			looks, timeout = looksAgain, lookAgain
		} else if looks--; looks <= 0 {
			timeout = -1
		}
	}
}

// await waits until something was typed or it is time to look again.
func (r *relay) await(timeout int) (typed bool, err error) {
	events := make([]unix.EpollEvent, 2)
	n, err := unix.EpollWait(r.poll, events, timeout)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return false, err
	}
	for _, e := range events[:max(n, 0)] {
		if e.Fd == int32(r.wake) {
			var count [8]byte
			_, _ = unix.Read(r.wake, count[:])
			continue
		}
		typed = true
		if e.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0 {
			return true, unix.EIO
		}
	}
	return typed, nil
}

func (r *relay) isFinished() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.finished
}

// carryTyped carries what there is and no more, so that no read ever waits.
func (r *relay) carryTyped(buf []byte) error {
	for {
		n, err := unix.IoctlGetInt(r.t.in, unix.TIOCINQ)
		if err != nil || n == 0 {
			return err
		}
		n, err = unix.Read(r.t.in, buf[:min(n, len(buf))])
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		if err != nil || n <= 0 {
			return errors.Join(err, unix.EIO)
		}
		r.moved.Add(int64(n))
		if _, err := r.master.Write(buf[:n]); err != nil {
			return err
		}
	}
}

// wait waits until all output is out; nobody inside is left to write.
func (r *relay) wait() {
	if r != nil {
		<-r.drained
	}
}

// finish waits until all output is out, and gives the terminal back. Call it
// when nothing inside is left, with started unset to wait for nothing.
func (r *relay) finish(started bool) {
	if r == nil {
		return
	}
	if started {
		<-r.drained
	}
	r.mu.Lock()
	if r.hasInput() {
		r.restore(started)
		r.nudge()
	}
	r.finished = true
	r.mu.Unlock()
	r.master.Close() // also ends a write that waits for a command that has gone
	if r.typing {
		<-r.quiet
	}
	r.closeFDs()
}

func (r *relay) closeFDs() {
	for _, fd := range []int{r.wake, r.poll} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}
