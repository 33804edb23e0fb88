package supervise

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// TakeListener makes a listener of a descriptor that came out of a boundary,
// after checking that it is what was asked for: a TCP socket that listens on
// that very address. It lives in the network namespace inside, where accept(2)
// doesn't care to be. The descriptor is taken either way.
func TakeListener(fd int, want string) (net.Listener, error) {
	err := checkListener(fd, want)
	f := os.NewFile(uintptr(fd), "listener "+want)
	defer f.Close() // FileListener has its own copy
	if err != nil {
		return nil, err
	}
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("cannot use the listener for %s: %w", want, err)
	}
	return l, nil
}

func checkListener(fd int, want string) error {
	addr, err := netip.ParseAddrPort(want)
	if err != nil {
		return fmt.Errorf("internal error: cannot read address %q: %w", want, err)
	}
	domain := unix.AF_INET
	if addr.Addr().Is6() {
		domain = unix.AF_INET6
	}
	for _, o := range []struct {
		name      string
		opt, want int
	}{
		{"domain", unix.SO_DOMAIN, domain},
		{"type", unix.SO_TYPE, unix.SOCK_STREAM},
		{"protocol", unix.SO_PROTOCOL, unix.IPPROTO_TCP},
		{"state", unix.SO_ACCEPTCONN, 1},
	} {
		got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, o.opt)
		if err != nil {
			return fmt.Errorf("cannot check the listener for %s: %w", want, err)
		}
		if got != o.want {
			return fmt.Errorf("the listener for %s is something else: its %s is %d, not %d", want, o.name, got, o.want)
		}
	}
	return checkAddress(fd, addr)
}

func checkAddress(fd int, want netip.AddrPort) error {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return fmt.Errorf("cannot check the listener for %s: %w", want, err)
	}
	var got netip.AddrPort
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		got = netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		got = netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
	default:
		return errors.New("the listener has no internet address")
	}
	if got != want {
		return fmt.Errorf("the listener for %s listens on %s", want, got)
	}
	return nil
}
