package main

import (
	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// backlog is cut by the kernel to net.core.somaxconn.
const backlog = 4096

// listenAll opens the listeners, in order.
func listenAll(addresses []string) ([]int, *wire.Failure) {
	if len(addresses) > wire.MaxListeners {
		return nil, failed(wire.StepListen, "", "too many listeners", nil)
	}
	var fds []int
	for _, address := range addresses {
		fd, err := listen(address)
		if err != nil {
			return nil, failed(wire.StepListen, "", "cannot listen on "+address, err)
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// openSockets makes the other sockets, in order. It comes before the second
// filter, which doesn't let the command have each of them.
func openSockets(s *wire.Setup) ([]int, *wire.Failure) {
	if len(s.Sockets) > wire.MaxListeners-len(s.Listen) {
		return nil, failed(wire.StepListen, "", "too many sockets", nil)
	}
	var fds []int
	for _, want := range s.Sockets {
		fd, err := unix.Socket(want.Domain, want.Type|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, want.Protocol)
		if err != nil {
			return nil, failed(wire.StepListen, "", "cannot make a socket of domain "+itoa(uint64(want.Domain)), err)
		}
		fds = append(fds, fd)
	}
	return fds, nil
}

// listen opens one TCP listener. It is non-blocking, since the supervisor's
// runtime polls it: that flag belongs to the open file, which it shares.
func listen(address string) (int, error) {
	sa, family, ok := parseAddress(address)
	if !ok {
		return -1, unix.EINVAL
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	if family == unix.AF_INET6 {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
			return -1, err
		}
	}
	if err := unix.Bind(fd, sa); err != nil {
		return -1, err
	}
	return fd, unix.Listen(fd, backlog)
}

// parseAddress reads "127.0.0.1:3128" and "[::1]:3128". Listeners stand on
// the sandbox's own loopback, so no other address of IPv6 exists.
func parseAddress(address string) (unix.Sockaddr, int, bool) {
	const v6 = "[::1]:"
	if len(address) > len(v6) && address[:len(v6)] == v6 {
		port, rest, ok := parseNumber(address[len(v6):], 65535)
		sa := &unix.SockaddrInet6{Port: port, Addr: [16]byte{15: 1}}
		return sa, unix.AF_INET6, ok && rest == ""
	}
	sa := &unix.SockaddrInet4{}
	for i := range sa.Addr {
		n, rest, ok := parseNumber(address, 255)
		if !ok || rest == "" || rest[0] != ".:"[i/3] {
			return nil, 0, false
		}
		sa.Addr[i], address = byte(n), rest[1:]
	}
	port, rest, ok := parseNumber(address, 65535)
	sa.Port = port
	return sa, unix.AF_INET, ok && rest == "" && sa.Addr[0] == 127
}

// parseNumber takes a decimal number off the front of s.
func parseNumber(s string, limit int) (n int, rest string, ok bool) {
	i := 0
	for ; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
		if n = n*10 + int(s[i]-'0'); n > limit {
			return 0, "", false
		}
	}
	return n, s[i:], i > 0
}
