package bwrap

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// rawConnect is connect(2) with the bytes of an address as they are: x/sys
// has no form of AF_UNSPEC.
func rawConnect(fd int, sa []byte) error {
	_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(sa))), uintptr(len(sa)))
	if errno != 0 {
		return errno
	}
	return nil
}
