package notify

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/event"
)

// unixSocket judges a connection of a unix socket, and answers how to make it.
func (e *Engine) unixSocket(c *caller, s *socket, id uint64, sa []byte) (a attempt, errno unix.Errno) {
	a.held = -1
	if s.kind != unix.SOCK_STREAM && s.kind != unix.SOCK_SEQPACKET {
		return a, unix.EACCES // one that was passed in
	}
	if family(sa) != unix.AF_UNIX || len(sa) < 3 {
		return a, unix.EINVAL
	}
	if sa[2] == 0 {
		// An abstract name is looked up in the socket's network namespace,
		// which is the sandbox's (unix_find_abstract): it can't lead out.
		a.target = sa
		return a, 0
	}
	path := cString(sa[2:])
	fd, err := e.lookUp(c, path)
	if err != nil {
		return a, asErrno(err)
	}
	if a.listed, errno = e.judge(c, id, fd, path); errno != 0 {
		unix.Close(fd)
		return a, errno
	}
	a.target, a.held = pathAddress("/proc/self/fd/"+strconv.Itoa(fd)), fd
	return a, 0
}

// lookUp opens what a path means to the caller, by the caller's rights: by
// root's, names in closed directories could be told, and sockets there
// reached. A socket that the policy lists is its choice wherever it lies.
func (e *Engine) lookUp(c *caller, path string) (fd int, err error) {
	lerr := e.rights.lowered(func() { fd, err = c.openAt(path) })
	if lerr != nil {
		return -1, unix.EACCES
	}
	if !errors.Is(err, unix.EACCES) || !e.rights.full.any() {
		return fd, err
	}
	fd, err = c.openAt(path)
	if err != nil {
		return -1, unix.EACCES
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil && e.listed(st.Dev, st.Ino) != nil {
		return fd, nil
	}
	unix.Close(fd)
	return -1, unix.EACCES
}

func family(sa []byte) uint16 { return binary.NativeEndian.Uint16(sa) }

func pathAddress(path string) []byte {
	sa := binary.NativeEndian.AppendUint16(nil, unix.AF_UNIX)
	return append(append(sa, path...), 0)
}

// judge decides about an opened unix socket, and reports a refusal. One that
// is listed the policy has chosen.
func (e *Engine) judge(c *caller, id uint64, fd int, path string) (listed bool, errno unix.Errno) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return false, asErrno(err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return false, unix.ECONNREFUSED
	}
	s := e.listed(st.Dev, st.Ino)
	if e.o.AllSockets {
		return s != nil, 0
	}
	if s != nil {
		e.report(c, id, event.Event{Action: event.Allowed, Target: s.Path, Rule: s.Rule})
		return true, 0
	}
	switch e.owner(c, fd, &st) {
	case ownerInside:
		return false, 0
	case ownerNobody:
		return false, unix.ECONNREFUSED
	}
	path = absolute(path, fd)
	e.report(c, id, event.Event{
		Action: event.Denied, Target: path, Reason: "not_listed", Hint: path, Rule: "sockets",
	})
	return false, unix.EACCES
}

// absolute is the path of an opened socket where the caller's own is relative,
// which no policy could list: inside, everything stands where it does outside.
func absolute(path string, fd int) string {
	if filepath.IsAbs(path) {
		return path
	}
	if at, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd)); err == nil && filepath.IsAbs(at) {
		return at
	}
	return path
}

// listed is the entry that a socket is of, or nil.
func (e *Engine) listed(dev, ino uint64) *Socket {
	for i := range e.o.Sockets {
		s := &e.o.Sockets[i]
		if e.pins[i] >= 0 && s.Dev == dev && s.Ino == ino || s.Fixed && standsAt(s.Path, dev, ino) {
			return s
		}
	}
	return nil
}

// pin holds the listed sockets open: the number of an inode that nothing holds
// goes to the next file that is made, which may be anybody's socket.
func (e *Engine) pin() {
	for _, s := range e.o.Sockets {
		fd, err := openBelow(unix.AT_FDCWD, s.Path, unix.RESOLVE_NO_SYMLINKS)
		var st unix.Stat_t
		if err == nil && (unix.Fstat(fd, &st) != nil || st.Dev != s.Dev || st.Ino != s.Ino) {
			unix.Close(fd)
			fd = -1
		}
		e.pins = append(e.pins, fd)
	}
}

// standsAt says whether the host has this very socket at a canonical path.
func standsAt(path string, dev, ino uint64) bool {
	fd, err := openBelow(unix.AT_FDCWD, path, unix.RESOLVE_NO_SYMLINKS)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	return unix.Fstat(fd, &st) == nil && st.Dev == dev && st.Ino == ino
}

// report emits an event of the socket kind. An allowed one is only wanted
// with all flows.
func (e *Engine) report(c *caller, id uint64, ev event.Event) {
	if e.o.Events == nil || ev.Action == event.Allowed && !e.o.AllFlows {
		return
	}
	pid, program := c.who()
	if !isWaiting(e.fd, id) {
		pid, program = 0, ""
	}
	ev.Time, ev.Run, ev.Kind, ev.PID, ev.Program = time.Now(), e.o.Run, event.Socket, pid, program
	e.o.Events.Emit(ev)
}
