package bwrap

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// terminals says which of the standard streams are terminals, and where the
// operator's is. None of them is handed inside: a program with a descriptor
// of a terminal that isn't its controlling one may read what is typed there
// even from the background.
type terminals struct {
	bits byte
	in   int // the operator's terminal to read, or -1
	out  int // to write
}

// findTerminals looks at the raw descriptors of the standard streams.
func findTerminals(fds [3]int) terminals {
	t := terminals{in: -1, out: -1}
	for i, fd := range fds {
		if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err == nil {
			t.bits |= 1 << i
		}
	}
	if t.bits&wire.TTYStdin != 0 {
		t.in = fds[0]
		if t.bits&wire.TTYStdout == 0 && isPipe(fds[1]) {
			t.bits |= wire.TTYLater
		}
	}
	// Echo goes where output goes; a terminal is open for both as a rule.
	switch {
	case t.bits&wire.TTYStdout != 0:
		t.out = fds[1]
	case t.bits&wire.TTYStderr != 0:
		t.out = fds[2]
	case t.bits != 0:
		t.out = fds[0]
	}
	return t
}

// isPipe reports whether something else, a pager perhaps, reads what is
// written to a descriptor.
func isPipe(fd int) bool {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return false
	}
	return st.Mode&unix.S_IFMT == unix.S_IFIFO || st.Mode&unix.S_IFMT == unix.S_IFSOCK
}

// size is the window's, or zero where the terminal has none.
func (t terminals) size() (rows, cols uint16) {
	if t.out < 0 {
		return 0, 0
	}
	ws, err := unix.IoctlGetWinsize(t.out, unix.TIOCGWINSZ)
	if err != nil {
		return 0, 0
	}
	return ws.Row, ws.Col
}

// prepareMaster checks the descriptor that came as the terminal's master and
// gives it the outer terminal's special characters and modes, if this process
// may speak for that.
func prepareMaster(fd int, t terminals) (*os.File, error) {
	if _, err := unix.IoctlGetInt(fd, unix.TIOCGPTN); err != nil {
		return nil, fmt.Errorf("cannot use the terminal made inside: it is none: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("cannot use the terminal made inside: %w", err)
	}
	if err := copyModes(fd, t); err != nil {
		return nil, fmt.Errorf("cannot set the modes of the terminal made inside: %w", err)
	}
	return os.NewFile(uintptr(fd), "terminal"), nil
}

// copyModes sets the inner terminal's modes by its master. Without input from
// the outer one, the inner only passes output on, and the outer terminal's
// own modes do the rest.
func copyModes(master int, t terminals) error {
	if t.in < 0 {
		modes, err := unix.IoctlGetTermios(master, unix.TCGETS)
		if err != nil {
			return err
		}
		modes.Oflag &^= unix.OPOST
		modes.Lflag &^= unix.ECHO
		return unix.IoctlSetTermios(master, unix.TCSETS, modes)
	}
	if !isForeground(t.in) {
		return nil // what is set there now is the shell's
	}
	modes, err := unix.IoctlGetTermios(t.in, unix.TCGETS)
	if err != nil {
		return err
	}
	return unix.IoctlSetTermios(master, unix.TCSETS, modes)
}

// isForeground reports whether this process may use a terminal. One that
// isn't its controlling terminal (ENOTTY) nobody else is in front of.
func isForeground(fd int) bool {
	pgrp, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP)
	return err != nil || pgrp == unix.Getpgrp()
}

// rawModes are cfmakeraw(3)'s, less the output's where another program of a
// pipeline writes to the same terminal.
func rawModes(t unix.Termios, shared bool) *unix.Termios {
	t.Iflag &^= unix.IGNBRK | unix.BRKINT | unix.PARMRK | unix.ISTRIP | unix.INLCR | unix.IGNCR | unix.ICRNL | unix.IXON
	if !shared {
		t.Oflag &^= unix.OPOST
	}
	t.Lflag &^= unix.ECHO | unix.ECHONL | unix.ICANON | unix.ISIG | unix.IEXTEN
	t.Cflag &^= unix.CSIZE | unix.PARENB
	t.Cflag |= unix.CS8
	t.Cc[unix.VMIN], t.Cc[unix.VTIME] = 1, 0
	return &t
}

// setModes changes a terminal's modes, after what was written is out if it is to
// wait. SIGTTOU is blocked meanwhile, in this thread alone: between the look and
// the change a shell may have put another job in front, and then this is its last
// word about its own terminal, not a reason to stop.
func setModes(fd int, modes *unix.Termios, wait bool) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var block, old unix.Sigset_t
	block.Val[0] = 1 << (unix.SIGTTOU - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &block, &old); err != nil {
		return fmt.Errorf("cannot block SIGTTOU: %w", err)
	}
	how := uint(unix.TCSETS)
	if wait {
		how = unix.TCSETSW
	}
	err := unix.IoctlSetTermios(fd, how, modes)
	if merr := unix.PthreadSigmask(unix.SIG_SETMASK, &old, nil); merr != nil {
		return fmt.Errorf("cannot unblock SIGTTOU: %w", merr)
	}
	if err != nil {
		return fmt.Errorf("cannot set the terminal's modes: %w", err)
	}
	return nil
}

// writeAll writes to a descriptor that may be non-blocking, as some callers'
// are.
func writeAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, -1)
		case err != nil:
			return err
		default:
			b = b[n:]
		}
	}
	return nil
}
