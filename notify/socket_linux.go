package notify

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// socket is the duplicate of a caller's socket.
type socket struct {
	fd     int
	domain int
	kind   int
	ino    uint64
}

// namespace identifies a network namespace.
type namespace struct{ dev, ino uint64 }

// namespaceOf tells which network namespace a socket is of (SIOCGSKNS, Linux
// 4.9). The kernel tells it to the owner of that namespace alone, which the
// supervisor is for its sandboxes and nobody for the host's, root aside.
func namespaceOf(fd int) (namespace, error) {
	ns, err := unix.IoctlRetInt(fd, unix.SIOCGSKNS)
	if err != nil {
		return namespace{}, fmt.Errorf("cannot tell a socket's network namespace: %w", err)
	}
	defer unix.Close(ns)
	var st unix.Stat_t
	if err := unix.Fstat(ns, &st); err != nil {
		return namespace{}, fmt.Errorf("cannot tell a socket's network namespace: %w", err)
	}
	return namespace{st.Dev, st.Ino}, nil
}

// look learns what the socket is. ENOTSOCK: it is none.
func (s *socket) look(ours namespace) error {
	var err error
	if s.domain, err = unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil {
		return err
	}
	if s.kind, err = unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(s.fd, &st); err != nil {
		return err
	}
	s.ino = st.Ino
	if ns, err := namespaceOf(s.fd); err != nil || ns != ours {
		return unix.EACCES
	}
	return nil
}

// connect makes one attempt that doesn't wait, whatever the caller's socket
// does. The flag is the open file's, which the caller shares, so it is put
// back at once.
func (s *socket) connect(sa []byte) (errno unix.Errno, blocking bool) {
	flags, err := unix.FcntlInt(uintptr(s.fd), unix.F_GETFL, 0)
	if err != nil {
		return asErrno(err), false
	}
	if blocking = flags&unix.O_NONBLOCK == 0; blocking {
		if _, err := unix.FcntlInt(uintptr(s.fd), unix.F_SETFL, flags|unix.O_NONBLOCK); err != nil {
			return asErrno(err), true
		}
		defer unix.FcntlInt(uintptr(s.fd), unix.F_SETFL, flags) //nolint:errcheck // it took the other one
	}
	for {
		if errno = rawConnect(s.fd, sa); errno != unix.EINTR {
			return errno, blocking
		}
	}
}

// patience is how long a blocking call may wait: SO_SNDTIMEO, socket(7).
func (s *socket) patience() (time.Time, bool) {
	tv, err := unix.GetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO)
	if err != nil || tv.Nano() <= 0 {
		return time.Time{}, false
	}
	return time.Now().Add(time.Duration(tv.Nano())), true
}

// isReady says within d whether a connection has come about, or failed.
func (s *socket) isReady(d time.Duration) bool {
	fds := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLOUT}}
	n, err := unix.Poll(fds, int(d.Milliseconds()))
	return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
}

// asErrno is the errno of an error of this package's system calls; EACCES for
// anything else.
func asErrno(err error) unix.Errno {
	if err == nil {
		return 0
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return unix.EACCES
}
