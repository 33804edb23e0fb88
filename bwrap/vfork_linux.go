package bwrap

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// errand is what a child does that shares this process's memory for as long as
// it lives, as with vfork(2): copying the page tables, and what is touched
// afterwards, takes as long as a hundred system calls. The thread that waits for
// it can't be used for anything else meanwhile, nor can the garbage collector
// begin, so an errand is short. See [calls] for why it takes a child.
type errand struct {
	list []single
	of   []int            // by call, whose answer is its first argument; -1 for none
	keep []unsafe.Pointer // what the arguments point to
}

// single is one system call. Its layout is known to vforkSteps.
type single struct {
	nr  uintptr
	arg [6]uintptr
	of  *uintptr // what to take for the first argument, or nil
	ret uintptr
}

// unmade is the answer of a call that wasn't made.
const unmade = 1 << 62

// vforkSteps makes a child that makes the calls up to one that fails, and exits
// with the number of that error. It uses no stack, which is the parent's.
//
//go:noescape
func vforkSteps(list *single, n uintptr) (pid, errno uintptr)

// add appends a call, and answers its place.
func (e *errand) add(nr uintptr, arg ...uintptr) int { return e.addOf(-1, nr, arg...) }

// addOf is add for a call whose first argument an earlier one answers.
func (e *errand) addOf(of int, nr uintptr, arg ...uintptr) int {
	s := single{nr: nr, ret: unmade}
	copy(s.arg[:], arg)
	e.list, e.of = append(e.list, s), append(e.of, of)
	return len(e.list) - 1
}

// text is a string for an argument. It stays where it is as long as the errand.
func (e *errand) text(s string) uintptr {
	b := append([]byte(s), 0)
	return e.pointer(unsafe.Pointer(&b[0]))
}

// pointer is an address for an argument. What it points to stays where it is as
// long as the errand: what isn't kept may lie on a stack, which moves as it grows.
func (e *errand) pointer(p unsafe.Pointer) uintptr {
	e.keep = append(e.keep, p)
	return uintptr(p)
}

func (e *errand) mount(source, target, kind string, flags uintptr, data string) {
	e.add(unix.SYS_MOUNT, e.text(source), e.text(target), e.text(kind), flags, e.text(data))
}

// run makes the calls, and answers the error of the first that fails. It doesn't
// wait for the child to be gone, which the kernel takes a while for that has
// namespaces of its own: then gone is closed.
func (e *errand) run(gone chan<- struct{}) error {
	for i, of := range e.of {
		if of >= 0 {
			e.list[i].of = &e.list[of].ret
		}
	}
	pid, err := e.vfork()
	if pid == 0 {
		close(gone)
		return err
	}
	go func() {
		reap(pid, nil)
		close(gone)
	}()
	return cmp.Or(err, e.failed())
}

// vfork answers the child, if there was one.
func (e *errand) vfork() (int, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	restore, err := blockSignals()
	if err != nil {
		return 0, err
	}
	pid, errno := vforkSteps(&e.list[0], uintptr(len(e.list)))
	err = restore()
	runtime.KeepAlive(e)
	if errno != 0 {
		return 0, fmt.Errorf("cannot fork: %w", unix.Errno(errno))
	}
	return int(pid), err
}

// failed is the error of the call that failed, or nil.
func (e *errand) failed() error {
	for i := range e.list {
		switch ret := int(e.list[i].ret); {
		case ret == unmade:
			return errors.New("the helper was ended by a signal")
		case ret < 0 && ret > -4096:
			return unix.Errno(-ret)
		}
	}
	return nil
}
