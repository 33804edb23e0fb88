package launch

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// takeListener makes a listener of a descriptor that came out of the
// container, after checking that it is what was asked for: a TCP socket that
// listens on that very address. It lives in the container's network namespace,
// where accept(2) doesn't care to be.
func takeListener(fd int, want string) (net.Listener, error) {
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
	for _, o := range []struct {
		name      string
		opt, want int
	}{
		{"domain", unix.SO_DOMAIN, unix.AF_INET},
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
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return fmt.Errorf("cannot check the listener for %s: %w", want, err)
	}
	in, ok := sa.(*unix.SockaddrInet4)
	if !ok {
		return errors.New("the listener has no internet address")
	}
	if got := netip.AddrPortFrom(netip.AddrFrom4(in.Addr), uint16(in.Port)); got != addr {
		return fmt.Errorf("the listener for %s listens on %s", want, got)
	}
	return ownNamespace(fd, want)
}

// ownNamespace proves that the socket isn't one of this process's own network
// namespace: a container that was handed a descriptor of the host's, or shares
// its network, must not have it served. The cookie of a socket's namespace is
// SO_NETNS_COOKIE, socket(7), Linux 5.14; before that there is nothing to see.
func ownNamespace(fd int, want string) error {
	theirs, err := unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if errors.Is(err, unix.ENOPROTOOPT) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot check the listener for %s: %w", want, err)
	}
	probe, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot check the listener for %s: %w", want, err)
	}
	defer unix.Close(probe)
	ours, err := unix.GetsockoptUint64(probe, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	if err != nil {
		return fmt.Errorf("cannot check the listener for %s: %w", want, err)
	}
	if ours == theirs {
		return fmt.Errorf("the listener for %s is in the host's own network", want)
	}
	return nil
}
