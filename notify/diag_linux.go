package notify

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// diag asks the kernel which unix sockets of one network namespace listen
// (sock_diag(7)).
type diag struct {
	mu  sync.Mutex
	fd  int
	seq uint32
	buf []byte
}

// inode is where a unix socket is bound, as unix_diag tells it: the file
// system's device, and the low half of the inode's number.
type inode struct {
	dev uint64
	ino uint32
}

// The numbers of linux/unix_diag.h and linux/sock_diag.h.
const (
	diagShowName  = 0x1
	diagShowVFS   = 0x2
	diagAttrName  = 0
	diagAttrVFS   = 1
	diagListening = 1 << 10 // TCP_LISTEN
	diagRequest   = 24      // sizeof(struct unix_diag_req)
	diagMessage   = 16      // sizeof(struct unix_diag_msg)
	diagTimeout   = 2 * time.Second
)

func newDiag(fd int) *diag { return &diag{fd: fd, buf: make([]byte, 32<<10)} }

// hostDiag asks about this process's own network namespace.
func hostDiag() (*diag, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return nil, fmt.Errorf("cannot ask about sockets: %w", err)
	}
	return newDiag(fd), nil
}

func (d *diag) close() {
	if d != nil {
		unix.Close(d.fd)
	}
}

// find calls match with where each listening socket is bound, until it says
// yes.
func (d *diag) find(states uint32, match func(inode) bool) (bool, error) {
	found := false
	err := d.dump(states, diagShowVFS, func(body []byte) {
		if i, ok := boundAt(body); ok {
			found = found || match(i)
		}
	})
	return found && err == nil, err
}

// dump calls fn with what the kernel tells of each socket.
func (d *diag) dump(states, show uint32, fn func(body []byte)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seq++
	if err := d.ask(states, show); err != nil {
		return fmt.Errorf("cannot ask about sockets: %w", err)
	}
	for {
		n, err := d.receive()
		if err != nil {
			return fmt.Errorf("cannot hear about sockets: %w", err)
		}
		if done, err := d.each(d.buf[:n], fn); done || err != nil {
			return err
		}
	}
}

func (d *diag) ask(states, show uint32) error {
	b := make([]byte, unix.SizeofNlMsghdr+diagRequest)
	order := binary.NativeEndian
	order.PutUint32(b[0:], uint32(len(b)))
	order.PutUint16(b[4:], unix.SOCK_DIAG_BY_FAMILY)
	order.PutUint16(b[6:], unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	order.PutUint32(b[8:], d.seq)
	body := b[unix.SizeofNlMsghdr:]
	body[0] = unix.AF_UNIX
	order.PutUint32(body[4:], states)
	order.PutUint32(body[12:], show)
	return unix.Sendto(d.fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
}

func (d *diag) receive() (int, error) {
	for {
		n, from, err := unix.Recvfrom(d.fd, d.buf, 0)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			fds := []unix.PollFd{{Fd: int32(d.fd), Events: unix.POLLIN}}
			if got, err := unix.Poll(fds, int(diagTimeout.Milliseconds())); err == nil && got == 0 {
				return 0, unix.ETIMEDOUT
			}
		case err != nil:
			return 0, err
		default:
			// Any process of the namespace may write to a netlink socket; the
			// kernel is port 0.
			if sa, ok := from.(*unix.SockaddrNetlink); ok && sa.Pid == 0 {
				return n, nil
			}
		}
	}
}

// each reads one datagram of a dump; done reports its end.
func (d *diag) each(b []byte, fn func(body []byte)) (done bool, err error) {
	order := binary.NativeEndian
	for len(b) >= unix.SizeofNlMsghdr {
		size := int(order.Uint32(b))
		if size < unix.SizeofNlMsghdr || size > len(b) {
			return false, errors.New("cannot read about sockets: a malformed message")
		}
		body := b[unix.SizeofNlMsghdr:size]
		if order.Uint32(b[8:]) == d.seq { // else what an earlier question left
			switch order.Uint16(b[4:]) {
			case unix.NLMSG_DONE:
				return true, nil
			case unix.NLMSG_ERROR:
				return false, diagError(body)
			case unix.SOCK_DIAG_BY_FAMILY:
				fn(body)
			}
		}
		b = b[min(align(size), len(b)):]
	}
	return false, nil
}

func diagError(body []byte) error {
	if len(body) >= 4 {
		if n := int32(binary.NativeEndian.Uint32(body)); n < 0 {
			return fmt.Errorf("cannot ask about sockets: %w", unix.Errno(-n))
		}
	}
	return errors.New("cannot ask about sockets: the kernel refused")
}

// boundAt finds the place in one socket's attributes; a socket that isn't
// bound to a path has none.
func boundAt(body []byte) (inode, bool) {
	b, ok := attribute(body, diagAttrVFS)
	if !ok || len(b) < 8 {
		return inode{}, false
	}
	order := binary.NativeEndian
	dev := order.Uint32(b[4:])
	// The kernel's own form of a device number: 12 and 20 bits.
	return inode{dev: unix.Mkdev(dev>>20, dev&(1<<20-1)), ino: order.Uint32(b)}, true
}

// attribute is one of a socket's.
func attribute(body []byte, kind uint16) ([]byte, bool) {
	order := binary.NativeEndian
	if len(body) < diagMessage {
		return nil, false
	}
	for b := body[diagMessage:]; len(b) >= 4; {
		size := int(order.Uint16(b))
		if size < 4 || size > len(b) {
			return nil, false
		}
		if order.Uint16(b[2:]) == kind {
			return b[4:size], true
		}
		b = b[min(align(size), len(b)):]
	}
	return nil, false
}

// align rounds up to netlink's four bytes.
func align(n int) int { return (n + 3) &^ 3 }
