package notify

import (
	"encoding/binary"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// serve answers one request. It holds a place among the active ones.
func (e *Engine) serve(r request) {
	c, err := newCaller(int(r.pid))
	if err != nil {
		e.answer(r.id, nil, unix.EACCES)
		<-e.active
		return
	}
	defer c.close()
	s := &socket{fd: -1}
	a, errno := e.examine(c, s, r)
	if s.fd >= 0 {
		defer unix.Close(s.fd)
	}
	if a.held >= 0 {
		defer unix.Close(a.held)
	}
	if errno == 0 && !isWaiting(e.fd, r.id) {
		<-e.active
		return // what was learnt may be of another process by now
	}
	if errno != 0 {
		e.answer(r.id, nil, errno)
		<-e.active
		return
	}
	e.connect(s, r, a)
}

// attempt is a connection that was judged.
type attempt struct {
	target []byte // its address
	held   int    // the descriptor that the address names, or -1
	listed bool   // it is a unix socket that the policy lists
	v      Verdict
	told   bool
}

// examine learns all about a call and judges it.
func (e *Engine) examine(c *caller, s *socket, r request) (attempt, unix.Errno) {
	a := attempt{held: -1}
	var err error
	if s.fd, err = c.duplicate(int(int32(r.data.args[0]))); err != nil {
		return a, asErrno(err)
	}
	if err := s.look(e.ours); err != nil {
		return a, asErrno(err)
	}
	sa, err := c.address(r.data.args[1], r.data.args[2])
	if err != nil {
		return a, asErrno(err)
	}
	var errno unix.Errno
	switch s.domain {
	case unix.AF_UNIX:
		return e.unixSocket(c, s, r.id, sa)
	case unix.AF_INET, unix.AF_INET6:
		a.target, a.v = e.inetSocket(c, s, r.id, sa)
		errno = a.v.Refused
	case unix.AF_NETLINK:
		a.target, errno = netlinkSocket(sa)
	default:
		errno = unix.EACCES
	}
	return a, errno
}

// netlinkSocket lets a netlink socket be aimed at the kernel, as getifaddrs(3)
// may: no multicast group, which this process might be allowed and the
// command not.
func netlinkSocket(sa []byte) ([]byte, unix.Errno) {
	if family(sa) == unix.AF_NETLINK && len(sa) >= unix.SizeofSockaddrNetlink {
		if binary.NativeEndian.Uint64(sa[4:]) != 0 { // nl_pid, nl_groups
			return nil, unix.EPERM
		}
	}
	return sa, 0
}

// moment is how long a call may hold its place among the active ones.
const moment = 10 * time.Millisecond

// connect carries a call out: at once, or in the time that the caller's
// socket allows.
func (e *Engine) connect(s *socket, r request, a attempt) {
	errno, again := e.try(s, &a)
	if again && s.domain != unix.AF_UNIX && s.isReady(moment) {
		errno, again = e.try(s, &a)
	}
	<-e.active
	if again {
		errno = e.wait(s, r, &a)
	}
	e.answer(r.id, s, errno)
}

// try makes one attempt; again reports a call that would wait.
func (e *Engine) try(s *socket, a *attempt) (errno unix.Errno, again bool) {
	errno, blocking := e.attempt(s, a)
	if a.v.Started != nil && !a.told && (errno == 0 || errno == unix.EINPROGRESS) {
		if from, ok := s.local(); ok {
			a.v.Started(from)
			a.told = true
		}
	}
	switch {
	case errno == unix.EISCONN && e.hasBegun(s):
		return 0, false
	case errno == unix.EINPROGRESS, errno == unix.EALREADY, errno == unix.EAGAIN && s.domain == unix.AF_UNIX:
		return errno, blocking
	}
	return errno, false
}

// attempt connects by the caller's rights, as the caller's own connect would:
// what may write to a unix socket may connect to it (unix(7)). To one that is
// listed the policy lets it.
func (e *Engine) attempt(s *socket, a *attempt) (errno unix.Errno, blocking bool) {
	if s.domain != unix.AF_UNIX || a.listed {
		return s.connect(a.target)
	}
	if e.rights.lowered(func() { errno, blocking = s.connect(a.target) }) != nil {
		return unix.EACCES, false
	}
	return errno, blocking
}

// wait is what a blocking connect does. Nothing tells when a full backlog has
// room, nor when a caller gives up or has a signal to handle, so all are looked
// at now and then. A call that a signal ends leaves what Linux leaves: a unix
// socket as it was, and TCP's connection on its way.
func (e *Engine) wait(s *socket, r request, a *attempt) unix.Errno {
	select {
	case e.waiting <- struct{}{}:
		defer func() { <-e.waiting }()
	default:
		return unix.EAGAIN
	}
	deadline, bounded := s.patience()
	signals := watch{tid: int(r.pid), bounded: bounded}
	const longest, heeded = 100 * time.Millisecond, 50 * time.Millisecond
	for delay := time.Millisecond; ; delay = min(2*delay, longest) {
		if bounded && time.Now().After(deadline) {
			return timedOut(s)
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-e.ctx.Done():
			timer.Stop()
			return unix.EINTR
		}
		interrupted := unix.Errno(0)
		if delay >= heeded {
			interrupted = signals.look()
		}
		if !isWaiting(e.fd, r.id) {
			return unix.EINTR
		}
		if interrupted != 0 {
			return interrupted
		}
		if s.domain != unix.AF_UNIX && !s.isReady(0) {
			continue
		}
		if errno, again := e.try(s, a); !again {
			return errno
		}
	}
}

// timedOut is the errno of SO_SNDTIMEO, socket(7).
func timedOut(s *socket) unix.Errno {
	if s.domain == unix.AF_UNIX {
		return unix.EAGAIN
	}
	return unix.EINPROGRESS
}

// answer replies. Where the caller was interrupted (before Linux 5.19 by any
// signal, later only by its death), its call is made anew, on a socket that
// may be connected by then.
func (e *Engine) answer(id uint64, s *socket, errno unix.Errno) {
	err := reply(e.fd, id, errno)
	if s == nil || !errors.Is(err, unix.ENOENT) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.begun) >= maxBegun {
		clear(e.begun)
	}
	e.begun[s.ino] = struct{}{}
}

// hasBegun says whether it was the engine that connected a socket whose
// caller never heard of it, and forgets it.
func (e *Engine) hasBegun(s *socket) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.begun[s.ino]
	delete(e.begun, s.ino)
	return ok
}
