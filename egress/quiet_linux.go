package egress

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// connQuiet asks the kernel, tcp(7), TCP_INFO.
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
