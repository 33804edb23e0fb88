package supervise_test

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/policy"
	"pinfold/supervise"
)

// What may be a standard stream, and what reaches past the boundary.
func TestCheckStream(t *testing.T) {
	t.Parallel()
	socket := func(domain, kind int) int {
		fd, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	pair := func(kind int) int {
		fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fds[1]) })
		return fds[0]
	}
	open := func(name string) int {
		fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		return fd
	}
	eventfd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	listening := socket(unix.AF_INET, unix.SOCK_STREAM)
	if err := unix.Listen(listening, 1); err != nil {
		t.Fatal(err)
	}
	here, _ := connection(t)
	for name, c := range map[string]struct {
		fd    int
		carry bool
		code  string
	}{
		"a file":                    {open("/etc/passwd"), false, ""},
		"a device":                  {open("/dev/null"), false, ""},
		"a directory":               {open("/"), false, "stream_is_directory"},
		"an eventfd":                {eventfd, false, "stream_kind"},
		"a stream pair":             {pair(unix.SOCK_STREAM), false, ""},
		"a packet pair":             {pair(unix.SOCK_SEQPACKET), false, ""},
		"a datagram pair":           {pair(unix.SOCK_DGRAM), false, "stream_is_socket"},
		"a unix socket":             {socket(unix.AF_UNIX, unix.SOCK_STREAM), false, "stream_is_socket"},
		"a UDP socket":              {socket(unix.AF_INET, unix.SOCK_DGRAM), false, "stream_is_socket"},
		"a TCP socket":              {socket(unix.AF_INET6, unix.SOCK_STREAM), false, "stream_is_socket"},
		"a TCP socket that listens": {listening, false, "stream_is_socket"},
		"a netlink socket":          {socket(unix.AF_NETLINK, unix.SOCK_RAW), false, "stream_is_socket"},
		"a TCP connection":          {raw(t, here), true, ""},
	} {
		carry, err := supervise.CheckStream(0, c.fd)
		r, refused := errors.AsType[*policy.Refusal](err)
		switch {
		case carry != c.carry, (c.code != "") != refused, refused && r.Code != c.code, err != nil && !refused:
			t.Errorf("%s: carry %v, %v", name, carry, err)
		}
		unix.Close(c.fd)
	}
}

// connection is one on loopback.
func connection(t *testing.T) (here, there *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	a, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a.(*net.TCPConn), b.(*net.TCPConn) //nolint:forcetypeassert // TCP
}

// raw is a descriptor of a connection, in blocking mode as a caller's are.
func raw(t *testing.T, c *net.TCPConn) int {
	t.Helper()
	f, err := c.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd, err := unix.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

// A connection that is carried works as it would by itself: both ways, shut
// down by one side, and left open by a process that has ended.
func TestCarried(t *testing.T) {
	t.Parallel()
	for _, shut := range []bool{true, false} {
		here, there := connection(t)
		real := raw(t, here)
		here.Close()
		var c supervise.Carried
		fd, made, err := c.Add(real)
		if err != nil || !made {
			t.Fatal(made, err)
		}
		if same, made, err := c.Add(real); same != fd || made || err != nil {
			t.Errorf("again: %d, %v, %v", same, made, err)
		}
		c.Start()
		inner := os.NewFile(uintptr(fd), "inner")
		if _, err := there.Write([]byte("question")); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, len("question"))
		if _, err := io.ReadFull(inner, b); err != nil || string(b) != "question" {
			t.Errorf("inside: %q, %v", b, err)
		}
		if !shut {
			if err := there.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			if n, err := inner.Read(b); n != 0 || !errors.Is(err, io.EOF) {
				t.Errorf("inside, at the end: %d, %v", n, err)
			}
		}
		got := make(chan int, 1)
		go func() {
			b, _ := io.ReadAll(there)
			got <- len(b)
		}()
		if _, err := inner.Write(make([]byte, 1<<20)); err != nil {
			t.Fatal(err)
		}
		if shut {
			if err := unix.Shutdown(fd, unix.SHUT_WR); err != nil {
				t.Fatal(err)
			}
		}
		if shut {
			if n := <-got; n != 1<<20 {
				t.Errorf("%d bytes came", n)
			}
			inner.Close()
			c.Finish(supervise.DrainLimit)
			unix.Close(real)
			continue
		}
		inner.Close()
		c.Finish(supervise.DrainLimit)
		if _, err := unix.Write(real, []byte("x")); err != nil {
			t.Errorf("the caller can't go on with its connection: %v", err)
		}
		unix.Close(real)
		if n := <-got; n != 1<<20+1 {
			t.Errorf("%d bytes came", n)
		}
	}
}

// What wasn't read before the end is the caller's still, and nothing waits for
// a connection that is silent.
func TestCarriedTakesNothingAfterwards(t *testing.T) {
	t.Parallel()
	here, there := connection(t)
	real := raw(t, here)
	defer unix.Close(real)
	var c supervise.Carried
	fd, _, err := c.Add(real)
	if err != nil {
		t.Fatal(err)
	}
	c.Start()
	unix.Close(fd)
	began := time.Now()
	c.Finish(supervise.DrainLimit)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	if _, err := there.Write([]byte("later")); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 10)
	if n, err := unix.Read(real, b); err != nil || string(b[:n]) != "later" {
		t.Errorf("got %q, %v", b[:n], err)
	}
}
