package bwrap

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pipeErrand writes a byte to a descriptor that an earlier call answers.
func pipeErrand(t *testing.T) (e *errand, from int) {
	t.Helper()
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeAll(p[:]) })
	e = &errand{}
	to := e.add(unix.SYS_DUP, uintptr(p[1]))
	e.addOf(to, unix.SYS_WRITE, 0, e.text("x"), 1)
	e.addOf(to, unix.SYS_CLOSE)
	return e, p[0]
}

func ran(t *testing.T, e *errand) error {
	t.Helper()
	gone := make(chan struct{})
	err := e.run(gone)
	<-gone
	return err
}

func TestErrand(t *testing.T) {
	t.Parallel()
	e, from := pipeErrand(t)
	if err := ran(t, e); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Read(from, make([]byte, 2)); n != 1 || err != nil {
		t.Errorf("read %d bytes, %v", n, err)
	}
}

// TestErrandStops: nothing is done after a call that fails, or a signal.
func TestErrandStops(t *testing.T) {
	t.Parallel()
	for name, add := range map[string]func(*errand){
		"bad file descriptor": func(e *errand) { e.add(unix.SYS_CLOSE, ^uintptr(0)) },
		"ended by a signal":   func(e *errand) { e.addOf(e.add(unix.SYS_GETPID), unix.SYS_KILL, 0, uintptr(unix.SIGKILL)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, from := pipeErrand(t)
			before := &errand{}
			add(before)
			for i := range e.of {
				if e.of[i] >= 0 {
					e.of[i] += len(before.of)
				}
			}
			e.list, e.of = append(before.list, e.list...), append(before.of, e.of...)
			if err := ran(t, e); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("got %v", err)
			}
			if err := unix.SetNonblock(from, true); err != nil {
				t.Fatal(err)
			}
			if n, err := unix.Read(from, make([]byte, 1)); !errors.Is(err, unix.EAGAIN) {
				t.Errorf("%d bytes were written: %v", n, err)
			}
		})
	}
}

// TestErrandsAmongOthers: the caller's stack and memory are as they were,
// whatever the runtime does meanwhile.
func TestErrandsAmongOthers(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 50 {
				mark, list := i, []int{i, i + 1}
				e := &errand{}
				for range 30 {
					e.add(unix.SYS_GETPPID)
				}
				if err := ran(t, e); err != nil || mark != i || list[1] != i+1 {
					t.Errorf("%v, %d, %v", err, mark, list)
				}
				if got := int(e.list[29].ret); got != unix.Getpid() {
					t.Errorf("the parent is %d", got)
				}
				if i%10 == 0 {
					runtime.GC()
				}
			}
		})
	}
	all.Wait()
}

// TestErrandPointer: what a call writes to is still there when the stack has
// moved meanwhile.
func TestErrandPointer(t *testing.T) {
	t.Parallel()
	done := make(chan uint64)
	go func() { // with a stack that is small yet
		e, st := &errand{}, &unix.Statx_t{}
		e.add(unix.SYS_STATX, at0cwd, e.text("/"), 0, unix.STATX_INO, e.pointer(unsafe.Pointer(st)))
		growStack(100)
		if err := ran(t, e); err != nil {
			t.Error(err)
		}
		done <- st.Ino
	}()
	if ino := <-done; ino == 0 {
		t.Error("nothing was written to the place that the call was given")
	}
}

//go:noinline
func growStack(deep int) (sum int) {
	var room [1 << 10]byte
	if deep > 0 {
		sum = growStack(deep - 1)
	}
	for i := range room {
		sum += int(room[i]) + i
	}
	return sum
}
