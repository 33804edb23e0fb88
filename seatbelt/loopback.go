package seatbelt

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// portTries bounds the search for a port that is free in both families.
const portTries = 50

// listenLoopback listens on a port of 127.0.0.1, and holds the same port of
// ::1 so that nobody else listens there: a profile's "localhost" is both.
func listenLoopback() (net.Listener, *os.File, error) {
	for range portTries {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, nil, err
		}
		held, err := holdSix(portOf(l))
		if err == nil {
			return l, held, nil
		}
		l.Close()
		if !errors.Is(err, unix.EADDRINUSE) {
			return nil, nil, err
		}
	}
	return nil, nil, fmt.Errorf("none of %d ports is free for IPv6", portTries)
}

// holdSix takes a port of ::1 without listening on it: connections to it are
// refused. It is nothing on a machine without that address.
func holdSix(port uint16) (*os.File, error) {
	syscall.ForkLock.RLock()
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if errors.Is(err, unix.EAFNOSUPPORT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot make a socket: %w", err)
	}
	f := os.NewFile(uintptr(fd), "[::1]")
	err = unix.Bind(fd, &unix.SockaddrInet6{Port: int(port), Addr: [16]byte{15: 1}})
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EADDRNOTAVAIL) {
		return nil, nil
	}
	return nil, fmt.Errorf("cannot hold port %d of ::1: %w", port, err)
}

// portOf is a listener's port, or 0 where there is none.
func portOf(l net.Listener) uint16 {
	if l == nil {
		return 0
	}
	a, ok := l.Addr().(*net.TCPAddr)
	if !ok {
		return 0
	}
	return uint16(a.Port)
}
