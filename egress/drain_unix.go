//go:build unix

package egress

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// queued is how many bytes of a connection wait to be read, tcp(7) SIOCINQ.
func queued(c net.Conn) (n int) {
	_ = control(c, func(fd int) { n, _ = unix.IoctlGetInt(fd, queuedRequest) })
	return n
}

// isReady reports whether a listener has somebody to accept.
func isReady(ln net.Listener) (ready bool) {
	_ = control(ln, func(fd int) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		ready = err == nil && n > 0
	})
	return ready
}

// control has the descriptor of what has one used. What is closed has none.
func control(x any, use func(fd int)) error {
	sc, ok := x.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return err
	}
	return raw.Control(func(fd uintptr) { use(int(fd)) })
}
