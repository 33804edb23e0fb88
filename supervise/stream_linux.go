package supervise

import (
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/policy"
)

// CheckStream looks at what is to be the command's standard input, output or
// error (0 to 2). Files, pipes, terminals and devices are handed on as they are,
// and so is the end of a connection between two processes: what one can do with
// it is what the caller meant.
//
// A directory leads to every file of the host (openat(2)), whatever is mounted
// inside. And a socket belongs to the network namespace that it was made in: one
// that isn't connected reaches whoever it is sent to, and a connected TCP one can
// be connected anew (AF_UNSPEC, connect(2)). The former are refused; the latter
// is what inetd and its like hand on, so carry says that it has to be carried.
func CheckStream(number, fd int) (carry bool, err error) {
	name := [3]string{"input", "output", "error"}[number]
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, fmt.Errorf("cannot look at standard %s: %w", name, err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG, unix.S_IFIFO, unix.S_IFCHR, unix.S_IFBLK:
		return false, nil
	case unix.S_IFDIR:
		return false, streamRefusal(name, "stream_is_directory", "it is a directory, and a way out of the boundary")
	case unix.S_IFSOCK:
		return checkSocket(name, fd)
	}
	return false, streamRefusal(name, "stream_kind", "it is neither a file, a pipe, a terminal nor a connection")
}

func checkSocket(name string, fd int) (carry bool, err error) {
	refuse := func(why string) (bool, error) {
		return false, streamRefusal(name, "stream_is_socket", why+", and a way past the boundary")
	}
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return false, fmt.Errorf("cannot look at standard %s: %w", name, err)
	}
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return false, fmt.Errorf("cannot look at standard %s: %w", name, err)
	}
	if kind != unix.SOCK_STREAM && (kind != unix.SOCK_SEQPACKET || domain != unix.AF_UNIX) {
		return refuse("it is a socket that can send to anybody")
	}
	if listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN); err != nil || listens != 0 {
		return refuse("it is a socket that listens")
	}
	if _, err := unix.Getpeername(fd); err != nil {
		return refuse("it is a socket that isn't connected")
	}
	switch domain {
	case unix.AF_UNIX:
		return false, nil
	case unix.AF_INET, unix.AF_INET6:
		return true, nil
	}
	return refuse(fmt.Sprintf("it is a socket of address family %d", domain))
}

func streamRefusal(name, code, why string) error {
	return &policy.Refusal{
		Reason: policy.Denied, Code: code, Subject: "standard " + name,
		Why: fmt.Sprintf("cannot hand on standard %s: %s", name, why),
		Fix: "redirect it from or to a file, a pipe or /dev/null",
	}
}

// Carried are the connections that stand for standard streams inside, each by
// one end of a pair whose other end is carried to the real one.
type Carried struct {
	list []*carriedStream
}

type carriedStream struct {
	id    [2]uint64 // the socket, which several streams may be
	real  int
	inner int
	outer int
	wake  int          // an eventfd: nobody inside is left
	end   atomic.Int64 // when to give up, in Unix nanoseconds; 0 for never
	out   chan struct{}
	in    chan struct{}
}

// Add answers the end for inside, which the caller closes once it is handed on.
// made says that it is a new one.
func (c *Carried) Add(fd int) (inner int, made bool, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return -1, false, fmt.Errorf("cannot look at a standard stream: %w", err)
	}
	id := [2]uint64{st.Dev, st.Ino}
	for _, s := range c.list {
		if s.id == id {
			return s.inner, false, nil
		}
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, false, fmt.Errorf("cannot carry a standard stream: %w", err)
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		unix.Close(pair[0])
		unix.Close(pair[1])
		return -1, false, fmt.Errorf("cannot carry a standard stream: %w", err)
	}
	c.list = append(c.list, &carriedStream{id: id, real: fd, inner: pair[0], outer: pair[1], wake: wake})
	return pair[0], true, nil
}

// Start carries.
func (c *Carried) Start() {
	for _, s := range c.list {
		s.out, s.in = make(chan struct{}), make(chan struct{})
		go s.carryOut()
		go s.carryIn()
	}
}

// Finish returns when all that was written inside has gone out, or can't, and
// takes nothing more from the real ones. Call it when nobody inside is left; it
// gives up after so long, with zero at once.
func (c *Carried) Finish(within time.Duration) {
	for _, s := range c.list {
		s.finish(within)
	}
	c.list = nil
}

func (s *carriedStream) finish(within time.Duration) {
	if s.out != nil {
		end := time.Now().Add(within)
		if within == 0 {
			_ = unix.Shutdown(s.outer, unix.SHUT_RDWR)
		}
		s.end.Store(end.UnixNano())
		// Of somebody inside who is there nevertheless.
		give := time.AfterFunc(time.Until(end), func() { _ = unix.Shutdown(s.outer, unix.SHUT_RDWR) })
		<-s.out
		give.Stop()
		_, _ = unix.Write(s.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // any value: an eventfd counts
		_ = unix.Shutdown(s.outer, unix.SHUT_RDWR)
		<-s.in
	}
	unix.Close(s.outer)
	unix.Close(s.wake)
}

// carryOut copies what is written inside. An end that was shut down inside ends
// that way of the connection; one that was closed doesn't, as others have it.
// Once the other way has ended the two can't be told apart (unix(7) has POLLHUP
// for either), and then it is the end of the run, or of the caller, that ends it.
func (s *carriedStream) carryOut() {
	defer close(s.out)
	buf := make([]byte, carryChunk)
	for {
		n, err := unix.Read(s.outer, buf)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return
		case n == 0:
			fds := []unix.PollFd{{Fd: int32(s.outer), Events: unix.POLLIN}}
			if _, err := unix.Poll(fds, 0); err == nil && fds[0].Revents&unix.POLLHUP == 0 {
				_ = unix.Shutdown(s.real, unix.SHUT_WR)
			}
			return
		case !s.sendAll(s.real, buf[:n]):
			_ = unix.Shutdown(s.outer, unix.SHUT_RD) // the command gets its SIGPIPE
			return
		}
	}
}

const carryChunk = 32 << 10

// carryIn copies what comes for the command. The descriptor's flags are the
// caller's, so that nothing here waits in a read.
func (s *carriedStream) carryIn() {
	defer close(s.in)
	buf := make([]byte, carryChunk)
	fds := []unix.PollFd{{Fd: int32(s.real), Events: unix.POLLIN}, {Fd: int32(s.wake), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR || fds[1].Revents != 0 {
			return
		}
		n, _, err := unix.Recvfrom(s.real, buf, unix.MSG_DONTWAIT)
		switch {
		case err == unix.EINTR || err == unix.EAGAIN:
		case err != nil || n == 0:
			_ = unix.Shutdown(s.outer, unix.SHUT_WR)
			return
		case !s.sendAll(s.outer, buf[:n]):
			return
		}
	}
}

// sendAll reports whether everything was taken.
func (s *carriedStream) sendAll(fd int, b []byte) bool {
	for len(b) > 0 {
		n, err := unix.SendmsgN(fd, b, nil, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		switch err {
		case nil:
			b = b[n:]
		case unix.EINTR:
		case unix.EAGAIN:
			if end := s.end.Load(); end != 0 && time.Now().UnixNano() > end {
				return false
			}
			// The end is looked at again, once in a while.
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, 100)
		default:
			return false
		}
	}
	return true
}
