package main

import (
	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// openTerminal makes a pseudo-terminal on the sandbox's own devpts, so that
// its name exists inside (ttyname(3) works) and no descriptor of the
// operator's terminal does.
func openTerminal(rows, cols uint16) (master, slave int, f *wire.Failure) {
	const path = "/dev/ptmx"
	master, err := unix.Open(path, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, -1, failed(wire.StepTerminal, path, "cannot open a pseudo-terminal", err)
	}
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return -1, -1, failed(wire.StepTerminal, path, "cannot unlock the pseudo-terminal", err)
	}
	slave, err = openPeer(master)
	if err != nil {
		return -1, -1, failed(wire.StepTerminal, path, "cannot open the pseudo-terminal's slave", err)
	}
	size := &unix.Winsize{Row: rows, Col: cols}
	if err := unix.IoctlSetWinsize(slave, unix.TIOCSWINSZ, size); err != nil {
		return -1, -1, failed(wire.StepTerminal, path, "cannot set the window size", err)
	}
	return master, slave, nil
}

// openPeer opens the slave by its master, not by a name that could lead
// elsewhere (TIOCGPTPEER, Linux 4.13, ioctl_tty(2)).
func openPeer(master int) (int, error) {
	flags := unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, uintptr(flags))
	if errno != 0 {
		return -1, errno
	}
	return int(fd), nil
}

// takeTerminal puts the slave in place of the streams whose bits are set, and
// makes it the controlling terminal of a new session if standard input is one
// of them. Otherwise the stub stays in bubblewrap's session, which has none (a
// session leader would get the first pseudo-terminal it opens as its own), in
// a process group of its own, so that kill(0, …) reaches the command's alone.
func takeTerminal(slave int, streams byte) *wire.Failure {
	if slave < 0 || streams&wire.TTYStdin == 0 {
		if err := unix.Setpgid(0, 0); err != nil {
			return failed(wire.StepTerminal, "", "cannot start a process group", err)
		}
	}
	if slave < 0 {
		return nil
	}
	if streams&wire.TTYStdin != 0 {
		if f := control(slave); f != nil {
			return f
		}
	}
	for fd := range 3 {
		if streams&(1<<fd) == 0 {
			continue
		}
		if err := unix.Dup3(slave, fd, 0); err != nil {
			return failed(wire.StepTerminal, "", "cannot put the terminal in place", err)
		}
	}
	unix.Close(slave)
	return nil
}

// control makes the slave the controlling terminal of a new session.
func control(slave int) *wire.Failure {
	if _, err := unix.Setsid(); err != nil {
		return failed(wire.StepTerminal, "", "cannot start a session", err)
	}
	if err := unix.IoctlSetInt(slave, unix.TIOCSCTTY, 0); err != nil {
		return failed(wire.StepTerminal, "", "cannot take the controlling terminal", err)
	}
	return nil
}

// placeStderr puts the command's standard error in place of bubblewrap's,
// unless the terminal is there already.
func placeStderr(s *wire.Setup) *wire.Failure {
	if s.Stderr == 0 || s.TTY&wire.TTYStderr != 0 {
		return nil
	}
	if err := unix.Dup3(s.Stderr, 2, 0); err != nil {
		return failed(wire.StepClose, "", "cannot put standard error in place", err)
	}
	return nil
}
