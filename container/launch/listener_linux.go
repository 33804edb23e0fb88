package launch

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"pinfold/supervise"
)

// takeListener makes a listener of a descriptor that came out of the
// container: the one that was asked for, and none of the host's.
func takeListener(fd int, want string) (net.Listener, error) {
	if err := ownNamespace(fd, want); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return supervise.TakeListener(fd, want)
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
