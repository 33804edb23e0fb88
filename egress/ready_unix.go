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
	tcp, ok := c.(*net.TCPConn)
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
	return r.raw.Read(func(fd uintptr) bool { //nolint:wrapcheck // told apart by the caller
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return err != syscall.EAGAIN //nolint:errorlint // a bare errno
	})
}

func isNotConnected(err error) bool { return errors.Is(err, syscall.ENOTCONN) }
