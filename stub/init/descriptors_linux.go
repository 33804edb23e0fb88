package main

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// closeOnExec makes every descriptor but the standard three close-on-exec.
// bubblewrap passes on whatever it inherited, and one open directory of the
// host would undo the whole mount table. They aren't closed right here
// because the runtime may hold some of its own.
func closeOnExec() *wire.Failure {
	err := unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC)
	if err == unix.ENOSYS || err == unix.EINVAL { // before Linux 5.9, 5.11
		err = closeEachOnExec()
	}
	if err != nil {
		return failed(wire.StepClose, "", "cannot keep inherited descriptors from the command", err)
	}
	return nil
}

// closeEachOnExec is the same by way of /proc, for older kernels.
func closeEachOnExec() error {
	dir, err := unix.Open("/proc/self/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return eachName(dir, func(name string) error {
		fd, rest, ok := parseNumber(name, 1<<30)
		if !ok || rest != "" || fd < 3 {
			return nil // "." and ".."
		}
		_, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC)
		return err
	})
}

// The fields of linux_dirent64, getdents64(2): d_ino, d_off, d_reclen, d_type
// and the name, which ends with a NUL.
const (
	direntLength = 16
	direntName   = 19
)

// eachName calls fn for each entry of a directory.
func eachName(dir int, fn func(name string) error) error {
	buf := make([]byte, 8192)
	for {
		n, err := unix.Getdents(dir, buf)
		if err != nil || n == 0 {
			return err
		}
		for b := buf[:n]; len(b) > direntName; {
			size := int(*(*uint16)(unsafe.Pointer(&b[direntLength])))
			if err := fn(unix.ByteSliceToString(b[direntName:size])); err != nil {
				return err
			}
			b = b[size:]
		}
	}
}
