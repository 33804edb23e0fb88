package supervise_test

import (
	"errors"
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"pinfold/supervise"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A descriptor that isn't the listener that was asked for isn't taken.
func TestTakeListener(t *testing.T) {
	t.Parallel()
	socket := func(domain, kind int, sa unix.Sockaddr, listen bool) int {
		t.Helper()
		fd, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, 0)
		must(t, err)
		if sa != nil {
			must(t, unix.Bind(fd, sa))
		}
		if listen {
			must(t, unix.Listen(fd, 1))
		}
		return fd
	}
	loop := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	file, err := os.Open("/dev/null")
	must(t, err)
	defer file.Close()
	null, err := unix.FcntlInt(file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	must(t, err)
	for name, fd := range map[string]int{
		"another port":  socket(unix.AF_INET, unix.SOCK_STREAM, loop, true),
		"not listening": socket(unix.AF_INET, unix.SOCK_STREAM, loop, false),
		"datagrams":     socket(unix.AF_INET, unix.SOCK_DGRAM, loop, false),
		"unix socket":   socket(unix.AF_UNIX, unix.SOCK_STREAM, &unix.SockaddrUnix{Name: "@" + t.Name()}, true),
		"no socket":     null,
	} {
		if _, err := supervise.TakeListener(fd, "127.0.0.1:3128"); err == nil {
			t.Errorf("%s was taken", name)
		}
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); !errors.Is(err, unix.EBADF) {
			t.Errorf("%s: the descriptor is left open: %v", name, err)
		}
	}
}

// One that is, of either family, is taken and works.
func TestTakeListenerTakes(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"127.0.0.1:0", "[::1]:0"} {
		var lc net.ListenConfig
		lc.SetMultipathTCP(false) // the stub's aren't either
		outer, err := lc.Listen(t.Context(), "tcp", at)
		if err != nil {
			t.Logf("no %s here: %v", at, err)
			continue
		}
		defer outer.Close()
		f, err := outer.(*net.TCPListener).File()
		must(t, err)
		fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		must(t, errors.Join(err, f.Close()))
		l, err := supervise.TakeListener(fd, outer.Addr().String())
		must(t, err)
		defer l.Close()
		conn, err := net.Dial("tcp", outer.Addr().String())
		must(t, err)
		defer conn.Close()
		in, err := l.Accept()
		must(t, err)
		in.Close()
	}
}
