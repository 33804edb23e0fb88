package notify_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func rawUnix(path string) []byte {
	b := make([]byte, 110)
	binary.NativeEndian.PutUint16(b, unix.AF_UNIX)
	copy(b[2:], path)
	return b
}

func connectBytes(fd int, sa []byte) error {
	_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&sa[0])), uintptr(len(sa)))
	if errno != 0 {
		return errno
	}
	return nil
}

// dial tries "network address" pairs and says what was heard.
func dial(args []string) error {
	for i := 0; i+1 < len(args); i += 2 {
		c, err := net.DialTimeout(args[i], args[i+1], 5*time.Second)
		if err != nil {
			fmt.Printf("%s %s: %s\n", args[i], args[i+1], errnoName(err))
			continue
		}
		buf := make([]byte, 64)
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		n, _ := c.Read(buf)
		c.Close()
		fmt.Printf("%s %s: %s\n", args[i], args[i+1], buf[:n])
	}
	return nil
}

// storm starts children that connect without end and kills them at random
// moments.
func storm(args []string) error {
	if len(args) == 1 { // a child
		for {
			_ = connectUnix("own")
			_ = connectUnix("full")
			if c, err := net.DialTimeout("tcp", args[0], time.Second); err == nil {
				c.Close()
			}
		}
	}
	if _, err := listenHere("full", 1); err != nil {
		return err
	}
	fd, err := listenHere("own", 128)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go acceptAll(l)
	go func() {
		for {
			if c, _, err := unix.Accept(fd); err == nil {
				unix.Close(c)
			}
		}
	}()
	for range port(args[0]) {
		child := exec.Command("/proc/self/exe", "storm", l.Addr().String()) //nolint:noctx // killed below
		child.Env = os.Environ()
		if err := child.Start(); err != nil {
			return err
		}
		time.Sleep(time.Duration(20+rand.IntN(40)) * time.Millisecond)
		_ = child.Process.Kill()
		_ = child.Wait()
	}
	fmt.Println("storm: over")
	return nil
}

func acceptAll(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		c.Close()
	}
}
