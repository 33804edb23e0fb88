package main

import (
	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// greet makes what has to be made inside, hands it out with the Hello packet
// and waits for Go. It returns the terminal's slave, or -1.
func greet(s *wire.Setup) (int, *wire.Failure) {
	fds, f := listenAll(s.Listen)
	if f != nil {
		return -1, f
	}
	sockets, f := openSockets(s)
	if f != nil {
		return -1, f
	}
	fds = append(fds, sockets...)
	slave := -1
	if s.TTY != 0 {
		master, sl, f := openTerminal(s.Rows, s.Cols)
		if f != nil {
			return -1, f
		}
		fds, slave = append(fds, master), sl
	}
	if len(s.Filter) > 0 {
		notify, f := loadFilter(s.Filter)
		if f != nil {
			return -1, f
		}
		fds = append(fds, notify)
	}
	hello := wire.EncodeHello(wire.Greeting{
		Version: wire.Version, Listeners: len(s.Listen), Sockets: len(s.Sockets), TTY: s.TTY != 0, Filter: len(s.Filter) > 0,
	})
	if err := sendPacket(hello, fds); err != nil {
		return -1, failed(wire.StepHello, "", "cannot greet the supervisor", err)
	}
	for _, fd := range fds {
		unix.Close(fd)
	}
	return slave, awaitGo()
}

// sendPacket sends one packet with descriptors. The kernel adds the pid, uid
// and gid by itself where the receiver asked for them (SO_PASSCRED).
func sendPacket(b []byte, fds []int) error { return sendOn(wire.ControlFD, b, fds) }

func sendOn(socket int, b []byte, fds []int) error {
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	for {
		err := unix.Sendmsg(socket, b, oob, nil, unix.MSG_NOSIGNAL)
		if err != unix.EINTR {
			return err
		}
	}
}

// awaitGo waits for the one packet that the supervisor sends. No descriptor is taken from
// it: there is no room for a control message.
func awaitGo() *wire.Failure {
	buf := make([]byte, 64)
	for {
		n, _, flags, _, err := unix.Recvmsg(wire.ControlFD, buf, nil, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return failed(wire.StepHello, "", "cannot hear the supervisor", err)
		}
		t, err := wire.PacketType(buf[:n])
		if err != nil || t != wire.Go || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
			return failed(wire.StepHello, "", "the supervisor did not say go", nil)
		}
		return nil
	}
}

// report sends the Failure. If the supervisor is gone, nobody is there to
// read it, and bubblewrap's --die-with-parent ends the sandbox.
func report(f *wire.Failure) {
	_ = sendPacket(wire.EncodeFailure(f), nil)
}
