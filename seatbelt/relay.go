package seatbelt

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

// relay carries between the operator's terminal and one made for the run. A
// nil relay is a run without any terminal. The outer one is raw meanwhile, so
// that keys mean what the inner one makes of them: Ctrl-C interrupts once,
// there. Ctrl-Z has nobody to hand back to: the command leads a session of
// its own, whose orphaned group the kernel doesn't stop; a shell's jobs stop
// as ever.
type relay struct {
	master, slave *os.File
	bits          [3]bool  // which streams it replaces
	in, out       *os.File // the operator's; in is nil where input is no terminal
	wake          [2]*os.File

	mu     sync.Mutex
	saved  *term.State
	copied chan struct{} // closed after the last output
	typed  sync.WaitGroup
}

// drainTime is how long output is waited for once the run is over: a process
// that got away may hold the terminal for good.
const drainTime = 2 * time.Second

// newRelay makes a terminal if one of the streams is one.
func newRelay(given [3]*os.File) (*relay, error) {
	r := &relay{}
	for i, f := range given {
		if r.bits[i] = f != nil && isTerminal(f); r.bits[i] {
			r.out = f
		}
	}
	if r.out == nil {
		return nil, nil //nolint:nilnil // documented: no terminal
	}
	var err error
	if r.master, r.slave, err = pty.Open(); err != nil {
		return nil, fmt.Errorf("cannot make a terminal: %w", err)
	}
	if r.bits[0] {
		r.in = given[0]
		if r.wake[0], r.wake[1], err = os.Pipe(); err != nil {
			return nil, fmt.Errorf("cannot make a pipe: %w", err)
		}
		r.resize()
		return r, nil
	}
	// Output alone passes through unchanged: the outer terminal does the rest.
	_, err = term.MakeRaw(int(r.slave.Fd()))
	return r, err
}

func isTerminal(f *os.File) bool {
	is := false
	_ = onFD(f, func(fd int) error {
		is = term.IsTerminal(fd)
		return nil
	})
	return is
}

// onFD runs fn with a file's descriptor as it is: [os.File.Fd] would switch a
// stream that others share to blocking mode.
func onFD(f *os.File, fn func(fd int) error) error {
	c, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var ferr error
	err = c.Control(func(fd uintptr) { ferr = fn(int(fd)) })
	return errors.Join(err, ferr)
}

func (r *relay) replaces(i int) bool { return r != nil && r.bits[i] }

// hasInput reports whether the command's standard input is a terminal.
func (r *relay) hasInput() bool { return r != nil && r.in != nil }

// start takes the terminal and carries.
func (r *relay) start() {
	if r == nil {
		return
	}
	r.enter()
	r.copied = make(chan struct{})
	go func() {
		defer close(r.copied)
		io.Copy(r.out, r.master) //nolint:errcheck // EIO is the end
	}()
	if r.in != nil {
		r.typed.Go(r.carryTyped)
	}
}

// carryTyped ends with the run: a read of a terminal can't be interrupted, so
// it is waited for together with a pipe. select(2), since poll(2) of macOS
// has not always known terminals.
func (r *relay) carryTyped() {
	buf := make([]byte, 4096)
	for {
		ready, err := r.readable()
		if err != nil || !ready {
			return
		}
		n := 0
		err = onFD(r.in, func(fd int) (err error) {
			n, err = unix.Read(fd, buf)
			return err
		})
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) {
			continue
		}
		if err != nil || n <= 0 {
			return
		}
		if _, err := r.master.Write(buf[:n]); err != nil {
			return
		}
	}
}

// readable waits for something typed; it is false at the end of the run.
func (r *relay) readable() (bool, error) {
	var in int
	if err := onFD(r.in, func(fd int) error { in = fd; return nil }); err != nil {
		return false, err
	}
	quit := int(r.wake[0].Fd())
	for {
		var set unix.FdSet
		set.Zero()
		set.Set(in)
		set.Set(quit)
		_, err := unix.Select(max(in, quit)+1, &set, nil, nil, nil)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		return err == nil && !set.IsSet(quit), err
	}
}

// enter makes the outer terminal raw.
func (r *relay) enter() {
	if !r.hasInput() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = onFD(r.in, func(fd int) error {
		saved, err := term.MakeRaw(fd)
		if err == nil && r.saved == nil {
			r.saved = saved
		}
		return err
	})
}

// leave gives the outer terminal back as it was.
func (r *relay) leave() {
	if !r.hasInput() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.saved != nil {
		_ = onFD(r.in, func(fd int) error { return term.Restore(fd, r.saved) }) // one that has gone needs none
		r.saved = nil
	}
}

// resize gives the inner terminal the outer one's size.
func (r *relay) resize() {
	if r != nil {
		_ = pty.InheritSize(r.out, r.master) // a terminal without a size has none to give
	}
}

// closeSlave lets go of the command's end: then the master ends with the last
// process that holds it.
func (r *relay) closeSlave() {
	if r != nil && r.slave != nil {
		r.slave.Close()
		r.slave = nil
	}
}

// finish carries what is left and gives the terminal back.
func (r *relay) finish() {
	if r == nil {
		return
	}
	r.closeSlave()
	if r.wake[1] != nil {
		r.wake[1].Close()
	}
	if r.copied != nil {
		timer := time.NewTimer(drainTime)
		defer timer.Stop()
		select {
		case <-r.copied:
		case <-timer.C:
		}
	}
	r.typed.Wait()
	r.leave()
	r.master.Close()
	if r.wake[0] != nil {
		r.wake[0].Close()
	}
}
