package egress

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// unsentBytes is how much a client's socket takes that isn't on its way yet.
// More is no faster: what waits has left the processor's cache by the time it
// is sent, and it is sent while the client reads, in the client's time.
const unsentBytes = 128 << 10

// swift readies a listener's connections for bulk (tcp(7); they inherit it).
// On a loopback there is no congestion to control: what a machine uses for its
// uplink may pace what it sends (bbr), a timer for each packet, which costs a
// fifth of the processor time of a transfer. Where the kernel won't, they are
// only slower.
func swift(ln net.Listener) {
	sc, ok := ln.(syscall.Conn)
	at, tcp := ln.Addr().(*net.TCPAddr)
	if !ok || !tcp || !at.IP.IsLoopback() {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		_ = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno")
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, unsentBytes)
	})
}
