package main

import (
	"bytes"
	"os"
	"syscall"
	"unsafe"
)

// descriptorPath is the name that an open file has, "" for a pipe: fcntl(2),
// F_GETPATH, which fills MAXPATHLEN bytes.
func descriptorPath(f *os.File) (string, error) {
	var path [1024]byte
	_, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_GETPATH, uintptr(unsafe.Pointer(&path[0])))
	switch errno {
	case 0:
		name, _, _ := bytes.Cut(path[:], []byte{0})
		return string(name), nil
	case syscall.EBADF, syscall.EINVAL:
		return "", nil
	}
	return "", os.NewSyscallError("fcntl", errno)
}
