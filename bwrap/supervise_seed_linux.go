package bwrap

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// seed makes sockets of the sandbox's network namespace, which this process
// can't enter: joining one takes privileges over one's own user namespace
// (setns(2)). A socket that listens in there gives birth to more of them: the
// seed connects to it, and what is accepted, once disconnected
// (connect(2), AF_UNSPEC), is a fresh socket like any other.
type seed struct {
	mu    sync.Mutex
	fd    int
	hatch int // the listener
	at    unix.Sockaddr
}

func (s *seed) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	closeFD(&s.fd)
	closeFD(&s.hatch)
}

// addSeed takes a seed or its hatch.
func (p *ports) addSeed(fd int, use socketUse) error {
	family := unix.AF_INET
	if use.kind == useSeed6 || use.kind == useHatch6 {
		family = unix.AF_INET6
	}
	if p.seeds == nil {
		p.seeds = map[int]*seed{}
	}
	s := p.seeds[family]
	if s == nil {
		s = &seed{fd: -1, hatch: -1}
		p.seeds[family] = s
	}
	if use.kind == useSeed || use.kind == useSeed6 {
		s.fd = fd
		return nil
	}
	err := s.listen(fd, netip.AddrPortFrom(loopback(family == unix.AF_INET6), 0))
	if family == unix.AF_INET6 && errors.Is(err, unix.EADDRNOTAVAIL) {
		return nil // IPv6 is switched off inside
	}
	return err
}

// listen makes the hatch of a socket, which it takes.
func (s *seed) listen(fd int, at netip.AddrPort) error {
	err := bind(fd, at)
	if err == nil {
		err = unix.Listen(fd, 8)
	}
	if err == nil {
		s.at, err = unix.Getsockname(fd)
	}
	if err != nil {
		unix.Close(fd)
		return fmt.Errorf("cannot prepare for network.expose: %w", err)
	}
	s.hatch = fd
	return nil
}

// hatchTries bounds the strangers that are turned away for one socket: the
// command may connect to the hatch as well.
const hatchTries = 64

// socket makes a fresh socket.
func (s *seed) socket(ctx context.Context) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd < 0 || s.hatch < 0 {
		return -1, net.ErrClosed
	}
	if err := unix.Connect(s.fd, s.at); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return -1, fmt.Errorf("cannot make a socket inside: %w", err)
	}
	defer disconnect(s.fd)
	own, err := unix.Getsockname(s.fd)
	if err != nil {
		return -1, fmt.Errorf("cannot make a socket inside: %w", err)
	}
	for range hatchTries {
		fd, from, err := s.accept(ctx)
		if err != nil {
			return -1, fmt.Errorf("cannot make a socket inside: %w", err)
		}
		if sameAddress(own, from) && disconnect(fd) == nil {
			return fd, nil
		}
		unix.Close(fd)
	}
	return -1, errors.New("cannot make a socket inside: too many strangers")
}

func (s *seed) accept(ctx context.Context) (int, unix.Sockaddr, error) {
	for {
		fd, from, err := unix.Accept4(s.hatch, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return fd, from, err
		}
		if err := await(ctx, s.hatch, unix.POLLIN); err != nil {
			return -1, nil, err
		}
	}
}

// await waits for a descriptor in slices, between which it looks at ctx.
func await(ctx context.Context, fd int, events int16) error {
	const slice = 100 * time.Millisecond
	for {
		fds := []unix.PollFd{{Fd: int32(fd), Events: events}}
		n, err := unix.Poll(fds, int(slice.Milliseconds()))
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		case n > 0:
			return nil
		}
	}
}

// disconnect makes a connected socket a fresh one; the other side is reset.
func disconnect(fd int) error {
	sa := binary.NativeEndian.AppendUint16(nil, unix.AF_UNSPEC)
	return rawConnect(fd, append(sa, make([]byte, 14)...))
}

func sameAddress(a, b unix.Sockaddr) bool {
	switch a := a.(type) {
	case *unix.SockaddrInet4:
		b, ok := b.(*unix.SockaddrInet4)
		return ok && a.Port == b.Port && a.Addr == b.Addr
	case *unix.SockaddrInet6:
		b, ok := b.(*unix.SockaddrInet6)
		return ok && a.Port == b.Port && a.Addr == b.Addr
	}
	return false
}

// dial connects to an address inside.
func (s *seed) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	fd, err := s.socket(ctx)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "connection to "+to.String())
	defer f.Close() // FileConn has its own copy
	var sa unix.Sockaddr = &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
	if to.Addr().Is4() {
		sa = &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	err = unix.Connect(fd, sa)
	if errors.Is(err, unix.EINPROGRESS) {
		if err = await(ctx, fd, unix.POLLOUT); err == nil {
			var n int
			if n, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR); err == nil && n != 0 {
				err = unix.Errno(n)
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot connect to %s inside: %w", to, err)
	}
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("cannot use the connection to %s inside: %w", to, err)
	}
	return conn, nil
}
