package notify

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// rawConnect is connect(2) with the bytes of an address as they are.
func rawConnect(fd int, sa []byte) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(sa))), uintptr(len(sa)))
	return errno
}
