//go:build unix

package egress

import (
	"errors"
	"net"
	"syscall"
)

// ready waits until a connection can be read, without a buffer and without a
// pipe, so that an idle tunnel holds neither.
type ready struct{ raw syscall.RawConn }

// readiness is for a TCP connection; others (TLS) are ready at once and wait
// in their Read.
func readiness(c net.Conn) ready {
	tcp, ok := bare(c).(*net.TCPConn)
	if !ok {
		return ready{}
	}
	raw, err := tcp.SyscallConn()
	if err != nil { // closed: Read says so
		return ready{}
	}
	return ready{raw: raw}
}

func (r ready) wait() error {
	if r.raw == nil {
		return nil
	}
	var one [1]byte
	var got error
	err := r.raw.Read(func(fd uintptr) bool {
		_, _, got = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return got != syscall.EAGAIN
	})
	if err == nil {
		// A socket tells of a reset once: the next read would see an
		// ordinary end of file.
		err = got
	}
	return err
}

func isNotConnected(err error) bool { return errors.Is(err, syscall.ENOTCONN) }

// quiet reports, without waiting, that there is nothing to read: neither
// bytes nor an end.
func (r ready) quiet() bool {
	if r.raw == nil {
		return false
	}
	var one [1]byte
	var got error
	err := r.raw.Control(func(fd uintptr) {
		_, _, got = syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
	})
	return err == nil && got == syscall.EAGAIN
}
