package notify_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// play runs a script inside.
func play(name string, args []string) int {
	script, ok := map[string]func([]string) error{
		"tour": tour, "named": named, "passed": passed, "race": race, "swap": swap, "address": address, "backlog": backlog,
		"tcp": tcp, "dial": dial, "storm": storm, "undumpable": undumpable, "python": python, "signalled": signalled,
	}[name]
	if !ok {
		fmt.Println("no script", name)
		return 2
	}
	if err := script(args); err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	return 0
}

func connectUnix(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Connect(fd, &unix.SockaddrUnix{Name: path})
}

// listenHere makes a socket of one's own and leaves it listening.
func listenHere(path string, backlog int) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return -1, err
	}
	return fd, unix.Listen(fd, backlog)
}

// acceptHere makes a socket of one's own whose backlog never fills up.
func acceptHere(path string) error {
	l, err := listenHere(path, 4096)
	if err != nil {
		return err
	}
	go func() {
		for {
			if fd, _, err := unix.Accept(l); err == nil {
				unix.Close(fd)
			}
		}
	}()
	return nil
}

// tour tries every path that it is given, and its own sockets by all their
// spellings.
func tour(paths []string) error {
	cwd, err := os.Getwd()
	if err != nil {
		return err
	}
	if _, err := listenHere("own", 64); err != nil {
		return err
	}
	if _, err := listenHere("@own", 64); err != nil {
		return err
	}
	stale, err := listenHere("stale", 1)
	if err != nil {
		return err
	}
	unix.Close(stale)
	dir, err := unix.Open(".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	file, err := unix.Open("own", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := os.Symlink(cwd+"/own", "link"); err != nil {
		return err
	}
	for name, path := range map[string]string{
		"relative": "own", "absolute": cwd + "/own", "dots": "../" + filepath.Base(cwd) + "/./own", "link": "link", "abstract": "@own",
		"by directory": "/proc/self/fd/" + strconv.Itoa(dir) + "/own", "by descriptor": "/proc/self/fd/" + strconv.Itoa(file),
		"by dev": "/dev/fd/" + strconv.Itoa(dir) + "/own", "by root": "/proc/self/root" + cwd + "/own", "by cwd": "/proc/self/cwd/own",
		"stale": "stale", "missing": "missing", "no socket": "/etc/passwd", "no directory": "own/x",
		"other abstract": "@nobody-listens-here", "out by dots": "/proc/self/fd/" + strconv.Itoa(dir) + "/../x",
	} {
		fmt.Printf("%s: %s\n", name, errnoName(connectUnix(path)))
	}
	for _, path := range paths {
		fmt.Printf("%s: %s\n", path, errnoName(connectUnix(path)))
	}
	return nil
}

// named sends to a name over sockets that could be aimed so.
func named(args []string) error {
	for _, kind := range []int{unix.SOCK_STREAM, unix.SOCK_SEQPACKET} {
		fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		to := &unix.SockaddrUnix{Name: args[0]}
		fmt.Printf("sendmsg %d: %s\n", kind, errnoName(unix.Sendmsg(fd, []byte("x"), nil, to, 0)))
		fmt.Printf("sendto %d: %s\n", kind, errnoName(unix.Sendto(fd, []byte("x"), 0, to)))
		pair, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		fmt.Printf("pair %d: %s\n", kind, errnoName(unix.Connect(pair[0], to)))
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	loop := &unix.SockaddrInet4{Port: 9, Addr: [4]byte{127, 0, 0, 1}}
	fmt.Printf("fast open: %s\n", errnoName(unix.Sendto(fd, []byte("x"), unix.MSG_FASTOPEN, loop)))
	return nil
}

// passed connects descriptor 4, a socket that was made outside.
func passed(args []string) error {
	fmt.Printf("unix: %s\n", errnoName(unix.Connect(4, &unix.SockaddrUnix{Name: args[0]})))
	fmt.Printf("abstract: %s\n", errnoName(unix.Connect(4, &unix.SockaddrUnix{Name: args[1]})))
	fmt.Printf("tcp: %s\n", errnoName(unix.Connect(5, &unix.SockaddrInet4{Port: port(args[2]), Addr: [4]byte{127, 0, 0, 1}})))
	fmt.Printf("datagram: %s\n", errnoName(unix.Connect(6, &unix.SockaddrUnix{Name: args[0]})))
	return nil
}

func port(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}

// race connects to its own socket while another thread writes the forbidden
// path over the address.
func race(args []string) error {
	d, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	if err := acceptHere("own"); err != nil {
		return err
	}
	own, forbidden := rawUnix("own"), rawUnix(args[0])
	addr := make([]byte, 110)
	stop := time.Now().Add(d)
	var wg sync.WaitGroup
	wg.Go(func() {
		for time.Now().Before(stop) {
			copy(addr, own)
			copy(addr, forbidden)
		}
	})
	outcomes := map[string]int{}
	for time.Now().Before(stop) {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return err
		}
		outcomes[errnoName(connectBytes(fd, addr))]++
		unix.Close(fd)
	}
	wg.Wait()
	fmt.Println("outcomes:", outcomes)
	return nil
}

// swap connects to a name that is a link to its own socket, and then one to
// the forbidden path.
func swap(args []string) error {
	d, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	if err := acceptHere("own"); err != nil {
		return err
	}
	stop := time.Now().Add(d)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; time.Now().Before(stop); i++ {
			to := "own"
			if i%2 == 0 {
				to = args[0]
			}
			if os.Symlink(to, "next") == nil {
				_ = os.Rename("next", "name")
			}
		}
	})
	outcomes := map[string]int{}
	for time.Now().Before(stop) {
		outcomes[errnoName(connectUnix("name"))]++
	}
	wg.Wait()
	fmt.Println("outcomes:", outcomes)
	return nil
}

// address connects to one port of its own while another thread writes the
// number of the forbidden one over it.
func address(args []string) error {
	d, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	free, err := net.Listen("tcp", "127.0.0.1:81")
	if err != nil {
		return err
	}
	forbidden, err := net.Listen("tcp", "127.0.0.1:82")
	if err != nil {
		return err
	}
	go acceptAll(free)
	reached := make(chan struct{}, 1)
	go func() {
		if c, err := forbidden.Accept(); err == nil {
			c.Close()
			reached <- struct{}{}
		}
	}()
	addr := []byte{unix.AF_INET, 0, 0, 81, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}
	stop := time.Now().Add(d)
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := byte(0); time.Now().Before(stop); i++ {
			addr[3] = 81 + i&1
		}
	})
	outcomes := map[string]int{}
	for time.Now().Before(stop) {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		outcomes[errnoName(connectBytes(fd, addr))]++
		_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}) // no TIME_WAIT
		unix.Close(fd)
	}
	wg.Wait()
	select {
	case <-reached:
		fmt.Println("forbidden: reached")
	case <-time.After(100 * time.Millisecond):
		fmt.Println("forbidden: never reached")
	}
	fmt.Println("outcomes:", outcomes)
	return nil
}

// backlog fills a backlog with blocking callers, sees that others go on, and
// then accepts them all.
func backlog([]string) error {
	full, err := listenHere("full", 1)
	if err != nil {
		return err
	}
	if _, err := listenHere("free", 64); err != nil {
		return err
	}
	const callers = 100
	errs := make(chan error, callers)
	for range callers {
		go func() { errs <- connectUnix("full") }()
	}
	for i := range 20 {
		if err := connectUnix("free"); err != nil {
			return fmt.Errorf("connection %d while others wait: %w", i, err)
		}
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	for err = nil; err == nil; { // until it is full for sure
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: "full"})
	}
	fmt.Println("non-blocking:", errnoName(err))
	go func() {
		for {
			if fd, _, err := unix.Accept(full); err == nil {
				unix.Close(fd)
			}
		}
	}()
	for range callers {
		if err := <-errs; err != nil {
			return err
		}
	}
	fmt.Println("all: connected")
	return nil
}

// tcp makes many connections at once to a server of its own.
func tcp(args []string) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("hi"))
			c.Close()
		}
	}()
	n := port(args[0])
	errs := make(chan error, n)
	for range n {
		go func() { errs <- hear(l.Addr().String(), "hi") }()
	}
	for range n {
		if err := <-errs; err != nil {
			return err
		}
	}
	fmt.Println("all: connected")
	return nil
}

func hear(addr, want string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	buf := make([]byte, 64)
	n, err := c.Read(buf)
	if err == nil && string(buf[:n]) != want {
		return fmt.Errorf("heard %q", buf[:n])
	}
	return err
}

// undumpable does what it does as a process whose memory nobody of its own
// user may look at.
func undumpable([]string) error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	if _, err := listenHere("own", 64); err != nil {
		return err
	}
	fmt.Println("own:", errnoName(connectUnix("own")))
	return nil
}
