package launch

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// packet is one message with the descriptors that came along.
type packet struct {
	body []byte
	kind wire.Type
	fds  []int
}

// talk is one connection with the stub. What comes in is bounded and treated
// as hostile.
type talk struct{ f *os.File }

func newTalk(fd int) (*talk, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("cannot talk to the stub: %w", err)
	}
	return &talk{f: os.NewFile(uintptr(fd), "stub")}, nil
}

func (c *talk) close() {
	if c != nil {
		c.f.Close()
	}
}

// deadline bounds what is heard; the zero time is none.
func (c *talk) deadline(t time.Time) { _ = c.f.SetReadDeadline(t) }

// receive takes one packet. Its descriptors are the caller's to close.
func (c *talk) receive() (*packet, error) {
	conn, err := c.f.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("cannot hear the stub: %w", err)
	}
	body := make([]byte, wire.MaxPacket)
	oob := make([]byte, unix.CmsgSpace(4*(wire.MaxListeners+2)))
	var n, oobn, flags int
	var rerr error
	err = conn.Read(func(fd uintptr) bool {
		for {
			n, oobn, flags, _, rerr = unix.Recvmsg(int(fd), body, oob, unix.MSG_CMSG_CLOEXEC)
			if !errors.Is(rerr, unix.EINTR) {
				return !errors.Is(rerr, unix.EAGAIN)
			}
		}
	})
	if err = errors.Join(err, rerr); err != nil {
		return nil, fmt.Errorf("cannot hear the stub: %w", err)
	}
	return unpack(body[:n], oob[:oobn], flags)
}

// unpack takes a message apart. An empty one is the end: the stub sends none.
func unpack(body, oob []byte, flags int) (*packet, error) {
	p := &packet{body: body}
	list, err := unix.ParseSocketControlMessage(oob)
	for i := range list {
		fds, e := unix.ParseUnixRights(&list[i])
		p.fds = append(p.fds, fds...)
		err = errors.Join(err, e)
	}
	switch {
	case err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		err = wire.ErrTooLong
	case err == nil && len(body) == 0:
		err = errStubClosed
	case err == nil:
		p.kind, err = wire.PacketType(body)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// close closes the descriptors that nobody has taken.
func (p *packet) close() {
	for _, fd := range p.fds {
		unix.Close(fd)
	}
	p.fds = nil
}

// send sends one packet with descriptors.
func (c *talk) send(b []byte, fds ...int) error {
	if c == nil {
		return errStubClosed
	}
	conn, err := c.f.SyscallConn()
	if err != nil {
		return fmt.Errorf("cannot talk to the stub: %w", err)
	}
	var oob []byte
	if len(fds) > 0 {
		oob = unix.UnixRights(fds...)
	}
	var serr error
	err = conn.Write(func(fd uintptr) bool {
		serr = unix.Sendmsg(int(fd), b, oob, nil, unix.MSG_NOSIGNAL)
		return !errors.Is(serr, unix.EAGAIN) && !errors.Is(serr, unix.EINTR)
	})
	if err = errors.Join(err, serr); err != nil {
		return fmt.Errorf("cannot talk to the stub: %w", err)
	}
	return nil
}

// failure is what the packet says went wrong, or nil.
func (p *packet) failure() error {
	if p.kind != wire.Failed {
		return nil
	}
	f, err := wire.DecodeFailure(p.body)
	if err != nil {
		return stubError("the stub's failure can't be read", err)
	}
	return failureError(f)
}
