package launch

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/container"
	"pinfold/stub/wire"
	"pinfold/supervise"
)

// meeting is where the stub calls: a socket in the directory that the
// container has mounted read-only. Anybody inside can connect to it, and so
// it is gone as soon as the stub has called.
type meeting struct {
	dir   *os.File
	fd    int
	nonce [wire.NonceSize]byte
	// first is the pid of the container's first process where the record has
	// it, else 0. The command may call too by then, as often as it likes: what
	// another process has to say isn't waited for.
	first int
}

// newNonce draws what tells this launch from others, and leaves it for the
// stub.
func newNonce(dir string) (nonce [wire.NonceSize]byte, err error) {
	rand.Read(nonce[:]) //nolint:errcheck // never fails (crypto/rand)
	name := filepath.Join(dir, filepath.Base(wire.ContainerNonce))
	if err := os.WriteFile(name, nonce[:], 0o444); err != nil { //nolint:gosec // the directory's parent is nobody else's
		return nonce, fmt.Errorf("cannot prepare the hand-over: %w", err)
	}
	return nonce, os.Chmod(name, 0o444) //nolint:gosec // whatever the umask was
}

// newMeeting listens. The socket is put in place by a rename, so that a stub
// that looks out for it finds it listening, and is named by its directory's
// descriptor, since a socket's name holds 107 bytes, unix(7).
func newMeeting(dir string, nonce [wire.NonceSize]byte) (*meeting, error) {
	m := &meeting{fd: -1, nonce: nonce}
	if err := m.listen(dir); err != nil {
		m.close()
		return nil, fmt.Errorf("cannot prepare the hand-over: %w", err)
	}
	return m, nil
}

// backlog is room for the stub beside whoever else inside connects.
const backlog = 16

const (
	socketName = container.SocketName
	freshName  = ".new"
)

func (m *meeting) listen(dir string) (err error) {
	if m.dir, err = os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0); err != nil {
		return err
	}
	if m.fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return err
	}
	at := int(m.dir.Fd())
	_ = unix.Unlinkat(at, freshName, 0)
	if err := unix.Bind(m.fd, &unix.SockaddrUnix{Name: fmt.Sprintf("/proc/self/fd/%d/%s", at, freshName)}); err != nil {
		return err
	}
	// Whoever the engine's user namespace makes of the command must get in.
	return errors.Join(
		unix.Fchmodat(at, freshName, 0o666, 0),
		unix.Listen(m.fd, backlog),
		unix.Renameat(at, freshName, at, socketName),
	)
}

func (m *meeting) close() {
	if m != nil {
		_ = m.end() // for a launch that fails anyway
	}
}

// end takes the socket and the nonce away. What stays could be seen by the
// command, so that is a failure.
func (m *meeting) end() error {
	if m.dir == nil {
		return nil
	}
	var errs []error
	for _, name := range []string{socketName, filepath.Base(wire.ContainerNonce)} {
		if err := unix.Unlinkat(int(m.dir.Fd()), name, 0); !errors.Is(err, unix.ENOENT) {
			errs = append(errs, err)
		}
	}
	if m.fd >= 0 {
		unix.Close(m.fd)
	}
	m.dir.Close()
	m.dir, m.fd = nil, -1
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cannot end the hand-over: %w", err)
	}
	return nil
}

// The wait for a call is cut into pieces, since the container may end before
// it calls, which only the engine tells.
const (
	callPiece = 100 * time.Millisecond
	hailTime  = 2 * time.Second
)

// stubProcess is the container's first process, held by a pidfd.
type stubProcess struct {
	pid   int
	pidfd int
}

// nobody is no process.
var nobody = stubProcess{pidfd: -1} //nolint:gochecknoglobals // a constant

// answer waits for the stub's call and proves that it is the stub's. Calls of
// others are dropped. inspect asks the engine for the container.
func (m *meeting) answer(ctx context.Context, again bool, inspect func() (container.State, error)) (*talk, stubProcess, error) {
	for {
		fd, err := m.accept(callPiece)
		switch {
		case ctx.Err() != nil:
			if fd >= 0 {
				unix.Close(fd)
			}
			return nil, nobody, context.Cause(ctx)
		case err != nil:
			return nil, nobody, fmt.Errorf("cannot hear the stub's call: %w", err)
		case fd < 0:
			if err := stillThere(inspect); err != nil {
				return nil, nobody, err
			}
			continue
		}
		c, p, err := m.prove(fd, again, inspect)
		if err == nil {
			return c, p, nil
		}
		if !errors.Is(err, errNotTheStub) {
			return nil, nobody, err
		}
	}
}

// accept waits for one call, for d at most; -1 is none.
func (m *meeting) accept(d time.Duration) (int, error) {
	fds := []unix.PollFd{{Fd: int32(m.fd), Events: unix.POLLIN}}
	if n, err := unix.Poll(fds, int(d.Milliseconds())); n <= 0 {
		if errors.Is(err, unix.EINTR) {
			err = nil
		}
		return -1, err
	}
	fd, _, err := unix.Accept4(m.fd, unix.SOCK_CLOEXEC)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR), errors.Is(err, unix.ECONNABORTED):
		return -1, nil
	case err != nil:
		return -1, err
	}
	return fd, nil
}

func stillThere(inspect func() (container.State, error)) error {
	s, err := inspect()
	if err != nil {
		return err
	}
	if !s.Alive() {
		return &endedEarly{s}
	}
	return nil
}

// endedEarly is a container that ended before the stub had called.
type endedEarly struct{ state container.State }

func (e *endedEarly) Error() string {
	text := fmt.Sprintf("the container ended before the stub said anything (%s, exit code %d)", e.state.Status, e.state.ExitCode)
	if e.state.Error != "" {
		text += ": " + supervise.Printable(e.state.Error)
	}
	return text
}

// errNotTheStub is a call of somebody else inside, which is no failure.
var errNotTheStub = errors.New("the call isn't the stub's")

// soPeerPidfd is SO_PEERPIDFD, socket(7), Linux 6.5.
const soPeerPidfd = 77

// prove compares the caller, as the kernel knows it, with the process that
// the engine says is the container's first. The pidfd is opened before the
// engine is asked: a pid that was taken over in between is another's by then,
// and the engine's answer names the one that runs now.
func (m *meeting) prove(fd int, again bool, inspect func() (container.State, error)) (*talk, stubProcess, error) {
	p := stubProcess{pidfd: -1}
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err == nil && cred.Pid > 0 {
		p.pid = int(cred.Pid)
		p.pidfd, err = peerPidfd(fd, p.pid)
	}
	c, cerr := newTalk(fd)
	if err != nil || p.pid <= 0 || cerr != nil || m.first != 0 && p.pid != m.first {
		c.close()
		if p.pidfd >= 0 {
			unix.Close(p.pidfd)
		}
		return nil, p, errNotTheStub // it has gone already, has no pid here, or is another
	}
	err = m.check(c, p, again, inspect)
	if err != nil {
		c.close()
		unix.Close(p.pidfd)
		return nil, p, err
	}
	return c, p, nil
}

func peerPidfd(fd, pid int) (int, error) {
	if pidfd, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, soPeerPidfd); err == nil {
		unix.CloseOnExec(pidfd)
		return pidfd, nil
	}
	return unix.PidfdOpen(pid, 0)
}

func (m *meeting) check(c *talk, p stubProcess, again bool, inspect func() (container.State, error)) error {
	c.deadline(time.Now().Add(hailTime))
	defer c.deadline(time.Time{})
	pk, err := c.receive()
	if err != nil {
		return errNotTheStub
	}
	defer pk.close()
	if pk.kind == wire.Failed {
		if s, err := inspect(); err == nil && s.Pid == p.pid {
			return pk.failure()
		}
		return errNotTheStub
	}
	hail, err := wire.DecodeHail(pk.body)
	if errors.Is(err, wire.ErrVersion) {
		return fmt.Errorf("cannot answer the stub: %w", err)
	}
	if err != nil || subtle.ConstantTimeCompare(hail.Nonce[:], m.nonce[:]) != 1 || hail.Again != again {
		return errNotTheStub
	}
	s, err := inspect()
	if err != nil {
		return err
	}
	if s.Status != container.Running || s.Pid != p.pid {
		return errNotTheStub
	}
	return nil
}
