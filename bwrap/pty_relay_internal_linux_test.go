package bwrap

import (
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// pty makes a terminal: what is written to the master is typed.
func pty(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { master.Close() })
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slave.Close() })
	return master, slave
}

// Until the command is in the foreground of its terminal, what is typed stays
// with the outer one, where Ctrl-Z and Ctrl-C are signals that wait; what the
// command writes comes out at once.
func TestKeysWaitForTheCommand(t *testing.T) {
	t.Parallel()
	typing, outer := pty(t)
	master, inner := pty(t)
	r, err := newRelay(terminals{bits: wire.TTYStdin | wire.TTYStdout, in: int(outer.Fd()), out: int(outer.Fd())}, master)
	if err != nil {
		t.Fatal(err)
	}
	lines := func() bool {
		modes, err := unix.IoctlGetTermios(int(outer.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		return modes.Lflag&(unix.ICANON|unix.ISIG) == unix.ICANON|unix.ISIG
	}
	r.start()
	if _, err := inner.WriteString("out\n"); err != nil {
		t.Fatal(err)
	}
	if n, err := typing.Read(make([]byte, 100)); err != nil || n == 0 {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if !lines() {
		t.Error("the terminal was taken before the command could have it")
	}
	r.open()
	if lines() {
		t.Error("the terminal wasn't taken")
	}
	r.leave()
	if r.enter() || !lines() {
		t.Error("the terminal was taken again, before the stop that it was given back for")
	}
	r.comeBack(func() {})
	if lines() {
		t.Error("the terminal wasn't taken when the stop was over")
	}
	inner.Close()
	r.finish(true)
	if !lines() {
		t.Error("the terminal wasn't given back")
	}
}

// Ctrl-Z that is typed while the command is about to be continued reaches it
// afterwards: before, it would be lost with the SIGCONT.
func TestKeysWaitForTheContinuation(t *testing.T) {
	t.Parallel()
	typing, outer := pty(t)
	master, inner := pty(t)
	r, err := newRelay(terminals{bits: wire.TTYStdin | wire.TTYStdout, in: int(outer.Fd()), out: int(outer.Fd())}, master)
	if err != nil {
		t.Fatal(err)
	}
	r.start()
	r.open()
	r.leave()
	if _, err := typing.WriteString("key\n"); err != nil {
		t.Fatal(err)
	}
	typed := make(chan int)
	go func() {
		n, _ := inner.Read(make([]byte, 100))
		typed <- n
	}()
	r.comeBack(func() {
		select {
		case <-typed:
			t.Error("the key came before the continuation")
		case <-time.After(100 * time.Millisecond): // nothing is to happen
		}
	})
	if n := <-typed; n != len("key\n") {
		t.Errorf("%d bytes came", n)
	}
	inner.Close()
	r.finish(true)
}
