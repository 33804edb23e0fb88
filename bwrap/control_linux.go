package bwrap

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// control is the supervisor's end of the pair that it shares with the stub.
// Whatever comes in is bounded and treated as hostile: with a terminal the
// stub lives beside the command.
type control struct {
	f *os.File
}

// packet is one message with what came along.
type packet struct {
	body []byte
	fds  []int
	cred *unix.Ucred
}

// newControl makes the pair, and returns the stub's end as a descriptor.
// Credentials are asked for before there is anyone to send them: the kernel
// adds a sender's only then (unix(7)).
func newControl() (*control, int, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, -1, fmt.Errorf("cannot make the control socket: %w", err)
	}
	if err := errors.Join(
		unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1),
		unix.SetNonblock(pair[0], true),
	); err != nil {
		unix.Close(pair[0])
		unix.Close(pair[1])
		return nil, -1, fmt.Errorf("cannot set up the control socket: %w", err)
	}
	return &control{f: os.NewFile(uintptr(pair[0]), "control")}, pair[1], nil
}

func (c *control) close() { c.f.Close() }

// until makes receive fail once ctx ends. The returned function ends the
// watch.
func (c *control) until(ctx context.Context) (stop func()) {
	end := context.AfterFunc(ctx, func() { _ = c.f.SetReadDeadline(time.Unix(1, 0)) })
	return func() { end() }
}

// receive takes one packet. Its descriptors are the caller's to close.
func (c *control) receive() (*packet, error) { return c.take(true) }

// lastWord is the failure that the stub has told of, if it has, or nil.
func (c *control) lastWord() error {
	for range maxUnread {
		pk, err := c.take(false)
		if err != nil {
			return nil
		}
		pk.close()
		if err := pk.failure(); err != nil {
			return err
		}
	}
	return nil
}

// maxUnread is more packets than a stub sends before its command.
const maxUnread = 8

// take takes one packet, if there is one or when one comes.
func (c *control) take(wait bool) (*packet, error) {
	conn, err := c.f.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("cannot hear the stub: %w", err)
	}
	body := make([]byte, wire.MaxPacket)
	oob := make([]byte, unix.CmsgSpace(unix.SizeofUcred)+unix.CmsgSpace(4*(wire.MaxListeners+2)))
	var n, oobn, flags int
	var rerr error
	err = conn.Read(func(fd uintptr) bool {
		for {
			n, oobn, flags, _, rerr = unix.Recvmsg(int(fd), body, oob, unix.MSG_CMSG_CLOEXEC)
			// ECONNRESET says once that the stub has ended without reading all that
			// was sent. What it said before still waits.
			if !errors.Is(rerr, unix.EINTR) && !errors.Is(rerr, unix.ECONNRESET) {
				return !wait || !errors.Is(rerr, unix.EAGAIN)
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
	err := p.ancillary(oob)
	if err == nil && flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		err = wire.ErrTooLong
	}
	if err == nil && len(body) == 0 {
		err = errClosed
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

func (p *packet) ancillary(oob []byte) error {
	list, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return fmt.Errorf("cannot read a control message: %w", err)
	}
	for i := range list {
		m := &list[i]
		switch {
		case m.Header.Level != unix.SOL_SOCKET:
			err = wire.ErrMalformed
		case m.Header.Type == unix.SCM_RIGHTS:
			var fds []int
			fds, err = unix.ParseUnixRights(m)
			p.fds = append(p.fds, fds...)
		case m.Header.Type == unix.SCM_CREDENTIALS:
			p.cred, err = unix.ParseUnixCredentials(m)
		default:
			err = wire.ErrMalformed
		}
		if err != nil {
			return fmt.Errorf("cannot read a control message: %w", err)
		}
	}
	return nil
}

// failure is what the packet says went wrong, or nil.
func (p *packet) failure() error {
	if wire.Type(p.body[0]) != wire.Failed {
		return nil
	}
	f, err := wire.DecodeFailure(p.body)
	if err != nil {
		return stubError("the stub's failure can't be read", err, "")
	}
	return failureError(f)
}

// close closes the descriptors that nobody has taken.
func (p *packet) close() {
	for _, fd := range p.fds {
		unix.Close(fd)
	}
	p.fds = nil
}

// take hands over the first descriptor.
func (p *packet) take() int {
	fd := p.fds[0]
	p.fds = p.fds[1:]
	return fd
}

// sendGo lets the stub go on.
func (c *control) sendGo() error {
	conn, err := c.f.SyscallConn()
	if err != nil {
		return fmt.Errorf("cannot let the command go: %w", err)
	}
	var serr error
	err = conn.Write(func(fd uintptr) bool {
		serr = unix.Sendmsg(int(fd), wire.EncodeSignal(wire.Go), nil, nil, unix.MSG_NOSIGNAL)
		return !errors.Is(serr, unix.EAGAIN) && !errors.Is(serr, unix.EINTR)
	})
	if err = errors.Join(err, serr); err != nil {
		return fmt.Errorf("cannot let the command go: %w", err)
	}
	return nil
}
