package main

import (
	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// arguments are the name that this program was called by and its one
// argument, "" for none. Package os, which knows them, is left out of the stub
// for its size.
func arguments() (self, arg string) {
	fd, err := unix.Open("/proc/self/cmdline", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", ""
	}
	defer unix.Close(fd)
	buf := make([]byte, 4096)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return "", ""
	}
	words := [2]string{}
	for i := range words {
		end := 0
		for end < n && buf[end] != 0 {
			end++
		}
		words[i] = string(buf[:end])
		end = min(end+1, n)
		buf, n = buf[end:], n-end
	}
	return words[0], words[1]
}

// readNonce reads what proves to the supervisor which launch this is.
func (k *keeper) readNonce() *wire.Failure {
	fd, err := unix.Open(wire.ContainerNonce, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return failed(wire.StepHello, wire.ContainerNonce, "cannot be opened", err)
	}
	defer unix.Close(fd)
	n, err := unix.Read(fd, k.nonce[:])
	if err != nil || n != len(k.nonce) {
		return failed(wire.StepHello, wire.ContainerNonce, "cannot be read", err)
	}
	return nil
}

// call connects to the supervisor and says who this is. On the first call that
// may take until the supervisor listens; later it may not wait, since others
// have something to say meanwhile.
func (k *keeper) call(again bool) error {
	kind := unix.SOCK_SEQPACKET | unix.SOCK_CLOEXEC
	if again {
		kind |= unix.SOCK_NONBLOCK
	}
	fd, err := unix.Socket(unix.AF_UNIX, kind, 0)
	if err != nil {
		return err
	}
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: wire.ContainerSocket})
	if err == nil {
		err = sendOn(fd, wire.EncodeHail(&wire.Caller{Version: wire.Version, Nonce: k.nonce, Again: again}), nil)
	}
	if err != nil {
		unix.Close(fd)
		return err
	}
	k.socket, k.hailed = fd, again
	return nil
}

// awaitOrders waits for the supervisor's answer.
func (k *keeper) awaitOrders() (*wire.Errand, []int, *wire.Failure) {
	body, fds, err := receiveOn(k.socket)
	if err != nil {
		return nil, nil, failed(wire.StepHello, "", "cannot hear the supervisor", err)
	}
	errand, err := wire.DecodeOrders(body)
	if err != nil || len(fds) != errand.FDs() {
		return nil, nil, failed(wire.StepHello, "", "the supervisor's orders are wrong", err)
	}
	return errand, fds, nil
}

// offer hands out the listeners, and keeps them.
func (k *keeper) offer() error { return sendOn(k.socket, wire.EncodeSignal(wire.Offer), k.listeners) }

// receiveOn takes one packet with its descriptors, which are the caller's.
// The end of the connection is ECONNRESET: nobody sends an empty packet.
func receiveOn(socket int) (body []byte, fds []int, err error) {
	buf, oob := make([]byte, wire.MaxPacket), make([]byte, unix.CmsgSpace(4*(wire.MaxListeners+2)))
	n, oobn, flags, _, err := unix.Recvmsg(socket, buf, oob, unix.MSG_CMSG_CLOEXEC)
	for err == unix.EINTR {
		n, oobn, flags, _, err = unix.Recvmsg(socket, buf, oob, unix.MSG_CMSG_CLOEXEC)
	}
	if err != nil {
		return nil, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	for i := range messages {
		if list, e := unix.ParseUnixRights(&messages[i]); e == nil {
			fds = append(fds, list...)
		}
	}
	switch {
	case err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		err = wire.ErrTooLong
	case err == nil && n == 0:
		err = unix.ECONNRESET
	}
	if err != nil {
		closeAll(fds)
		return nil, nil, err
	}
	return buf[:n], fds, nil
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// tell says something to the supervisor. One that has gone is found by its
// end of the socket.
func (k *keeper) tell(b []byte, fds []int) {
	if k.socket >= 0 && !k.hailed {
		_ = sendOn(k.socket, b, fds)
	}
}

// hearSupervisor takes one packet of the supervisor's.
func (k *keeper) hearSupervisor() {
	body, fds, err := receiveOn(k.socket)
	if err == unix.EAGAIN {
		return
	}
	closeAll(fds) // none is expected
	var kind wire.Type
	if err == nil {
		kind, err = wire.PacketType(body)
	}
	switch {
	case err != nil:
		k.lost()
	case kind == wire.Go && k.child.socket >= 0 && !k.hailed:
		_ = sendOn(k.child.socket, body, nil)
	case kind == wire.Kill && !k.hailed:
		if sig, err := wire.DecodeKill(body); err == nil {
			k.deliver(unix.Signal(sig))
		}
	case kind == wire.Again && k.hailed:
		k.welcome()
	case kind == wire.Bye && k.child.ended:
		k.hangUp()
	default:
		k.lost()
	}
}

// lost is the supervisor's end. Before the command runs that is the end of
// everything: nobody has let it go.
func (k *keeper) lost() {
	k.hangUp()
	if !k.child.running && !k.child.ended {
		unix.Exit(exitFailed)
	}
	if k.watch < 0 {
		k.watch, _ = watchDir() // -1 without one
	}
}

func (k *keeper) hangUp() {
	unix.Close(k.socket)
	k.socket, k.hailed = -1, false
}

// watchDir tells of a socket that is put in place.
func watchDir() (int, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return -1, err
	}
	if _, err := unix.InotifyAddWatch(fd, wire.ContainerDir, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_ONLYDIR); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// seek looks whether a supervisor is back. What the watch says is read and
// dropped: that it said something is enough.
func (k *keeper) seek() {
	if k.watch >= 0 {
		buf := make([]byte, 4096)
		for {
			if _, err := unix.Read(k.watch, buf); err != nil {
				break
			}
		}
	}
	if k.socket < 0 {
		_ = k.call(true) // not there yet
	}
}

// welcome gives another supervisor what the first one had.
func (k *keeper) welcome() {
	k.hailed = false
	if k.offer() != nil || sendOn(k.socket, wire.EncodeSignal(wire.Child), []int{k.child.pidfd}) != nil {
		k.lost()
	}
}
