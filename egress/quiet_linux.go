package egress

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Quiet is how long ago the clients last sent or got anything, by the
// kernel's own clock of each connection (tcp(7), TCP_INFO), so that bytes
// which it moves by itself count too. Without a connection ok is false.
func (s *Server) Quiet() (least time.Duration, ok bool) {
	s.mu.Lock()
	conns := make([]net.Conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	s.mu.Unlock()
	for _, c := range conns {
		if d, known := connQuiet(c); known && (!ok || d < least) {
			least, ok = d, true
		}
	}
	return least, ok
}

func connQuiet(c net.Conn) (d time.Duration, ok bool) {
	sc, isSocket := c.(syscall.Conn)
	if !isSocket {
		return 0, false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0, false
	}
	err = raw.Control(func(fd uintptr) {
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		if err == nil {
			d, ok = time.Duration(min(info.Last_data_sent, info.Last_data_recv))*time.Millisecond, true
		}
	})
	return d, ok && err == nil
}
