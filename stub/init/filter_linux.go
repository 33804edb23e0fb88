package main

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// The program's size is a uint16 count of 8-byte instructions, of which the
// kernel takes BPF_MAXINSNS.
const (
	instructionSize = 8
	maxInstructions = 4096
)

// loadFilter loads the second seccomp program and returns its notification
// descriptor, seccomp_unotify(2). WAIT_KILLABLE_RECV (Linux 5.19) keeps a
// signal from undoing a call that the supervisor is carrying out; older
// kernels refuse the flag with EINVAL and do without.
func loadFilter(program []byte) (int, *wire.Failure) {
	fprog, f := filterOf(program)
	if f != nil {
		return -1, f
	}
	flags := uintptr(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER)
	fd, errno := seccompFilterCall(flags|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, fprog)
	if errno == unix.EINVAL {
		fd, errno = seccompFilterCall(flags, fprog)
	}
	if errno != 0 {
		return -1, failed(wire.StepFilter, "", "cannot load the program", errno)
	}
	return fd, nil
}

// loadInner loads a program that answers by itself, if there is one.
func loadInner(program []byte) *wire.Failure {
	if len(program) == 0 {
		return nil
	}
	fprog, f := filterOf(program)
	if f != nil {
		return f
	}
	if _, errno := seccompFilterCall(0, fprog); errno != 0 {
		return failed(wire.StepFilter, "", "cannot load the inner program", errno)
	}
	return nil
}

func filterOf(program []byte) (*unix.SockFprog, *wire.Failure) {
	n := len(program) / instructionSize
	if len(program)%instructionSize != 0 || n > maxInstructions {
		return nil, failed(wire.StepFilter, "", "the program has an impossible length", nil)
	}
	return &unix.SockFprog{Len: uint16(n), Filter: (*unix.SockFilter)(unsafe.Pointer(&program[0]))}, nil
}

func seccompFilterCall(flags uintptr, fprog *unix.SockFprog) (int, unix.Errno) {
	fd, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(fprog)))
	return int(fd), errno
}
