package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/container"
	"pinfold/stub/wire"
)

// dial calls a meeting, and says something.
func dial(t *testing.T, dir string, b []byte) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: dir + "/s"}); err != nil {
		t.Fatal(err)
	}
	if b != nil {
		if err := unix.Sendmsg(fd, b, nil, nil, unix.MSG_NOSIGNAL); err != nil {
			t.Fatal(err)
		}
	}
	return fd
}

func testMeeting(t *testing.T) (*meeting, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "pfm")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	nonce, err := newNonce(dir)
	if err != nil {
		t.Fatal(err)
	}
	m, err := newMeeting(dir, nonce)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.close)
	return m, dir
}

func hail(m *meeting, change func(*wire.Caller)) []byte {
	c := &wire.Caller{Version: wire.Version, Nonce: m.nonce}
	if change != nil {
		change(c)
	}
	return wire.EncodeHail(c)
}

// running is an engine that says that this very process is the container's
// first.
func running() (container.State, error) {
	return container.State{Status: container.Running, Pid: os.Getpid()}, nil
}

// TestMeeting: the call with the nonce, from the process that the engine
// names, is answered; the calls before it are dropped, whatever they say.
func TestMeeting(t *testing.T) {
	t.Parallel()
	m, dir := testMeeting(t)
	for _, b := range [][]byte{
		[]byte("nonsense"), wire.EncodeSignal(wire.Ready), make([]byte, wire.MaxPacket),
		hail(m, func(c *wire.Caller) { c.Nonce[3]++ }), hail(m, func(c *wire.Caller) { c.Again = true }),
	} {
		dial(t, dir, b)
	}
	if err := unix.Shutdown(dial(t, dir, nil), unix.SHUT_RDWR); err != nil { // not closed twice: the number may be another test's by then
		t.Fatal(err)
	}
	dial(t, dir, hail(m, nil))
	c, p, err := m.answer(t.Context(), false, running)
	if err != nil || p.pid != os.Getpid() {
		t.Fatalf("%+v, %v", p, err)
	}
	defer c.close()
	defer unix.Close(p.pidfd)
	m.close()
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left in the directory: %v, %v", left, err)
	}
}

// TestMeetingRefuses: with the right nonce too, the process has to be the
// engine's.
func TestMeetingRefuses(t *testing.T) {
	t.Parallel()
	refused := errors.New("the engine doesn't answer")
	for name, tc := range map[string]struct {
		inspect func() (container.State, error)
		want    error
	}{
		"another process": {func() (container.State, error) { return container.State{Status: container.Running, Pid: 1}, nil }, context.DeadlineExceeded},
		"not running": {func() (container.State, error) {
			return container.State{Status: container.Paused, Pid: os.Getpid()}, nil
		}, context.DeadlineExceeded},
		"no answer": {func() (container.State, error) { return container.State{}, refused }, refused},
	} {
		m, dir := testMeeting(t)
		dial(t, dir, hail(m, nil))
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		_, _, err := m.answer(ctx, false, tc.inspect)
		cancel()
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestMeetingWaitsForNoOther: where it is known who will call, others who call
// and say nothing don't hold it up.
func TestMeetingWaitsForNoOther(t *testing.T) {
	t.Parallel()
	m, dir := testMeeting(t)
	m.first = os.Getppid()
	var silent []int
	for range 8 {
		silent = append(silent, dial(t, dir, nil))
	}
	ctx, cancel := context.WithTimeout(t.Context(), hailTime/2)
	defer cancel()
	if _, _, err := m.answer(ctx, true, running); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("another process was answered: %v", err)
	}
	for _, fd := range silent {
		if n, err := unix.Read(fd, make([]byte, 1)); n != 0 || err != nil {
			t.Errorf("a call of another process is still open: %d, %v", n, err)
		}
	}
}

// TestMeetingEnds: a container that ends before its stub calls is told.
func TestMeetingEnds(t *testing.T) {
	t.Parallel()
	m, _ := testMeeting(t)
	_, _, err := m.answer(t.Context(), false, func() (container.State, error) {
		return container.State{Status: container.Exited, ExitCode: 125, StartedAt: time.Now()}, nil
	})
	if early := (*endedEarly)(nil); !errors.As(err, &early) {
		t.Errorf("%v", err)
	}
}

// TestListenersAreChecked: what comes out of a container is a TCP listener at
// that address, and none of the host's own.
func TestListenersAreChecked(t *testing.T) {
	t.Parallel()
	socket := func(domain, kind int, do func(fd int) error) int {
		fd, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = do(fd)
		}
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	loopback := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	bound := func(fd int) error { return unix.Bind(fd, loopback) }
	listening := func(fd int) error { return errors.Join(unix.Bind(fd, loopback), unix.Listen(fd, 1)) }
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	dup, err := unix.Dup(int(file.Fd()))
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	for name, fd := range map[string]int{
		"no socket":           dup,
		"datagrams":           socket(unix.AF_INET, unix.SOCK_DGRAM, bound),
		"not listening":       socket(unix.AF_INET, unix.SOCK_STREAM, bound),
		"a unix socket":       socket(unix.AF_UNIX, unix.SOCK_STREAM, func(int) error { return nil }),
		"another address":     socket(unix.AF_INET, unix.SOCK_STREAM, listening),
		"the host's own port": 0,
	} {
		want := "127.0.0.1:1"
		if fd == 0 {
			fd = socket(unix.AF_INET, unix.SOCK_STREAM, listening)
			sa, err := unix.Getsockname(fd)
			if err != nil {
				t.Fatal(err)
			}
			want = fmt.Sprint("127.0.0.1:", sa.(*unix.SockaddrInet4).Port) //nolint:forcetypeassert // bound above
		}
		if l, err := takeListener(fd, want); err == nil {
			l.Close()
			t.Errorf("%s: taken", name)
		}
	}
}
