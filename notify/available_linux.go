package notify

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Available says why connections can't be answered on this machine; nil where
// they can.
func Available() error {
	action := uint32(unix.SECCOMP_RET_USER_NOTIF)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	if errno != 0 {
		return fmt.Errorf("the kernel has no seccomp user notification: %w", errno)
	}
	if _, err := unix.PidfdGetfd(-1, -1, 0); !errors.Is(err, unix.EBADF) {
		return fmt.Errorf("the kernel has no pidfd_getfd: %w", err)
	}
	return nil
}

// CanTellSockets says why it can't be told which unix sockets are whose; nil
// where it can. Kernels may lack unix_diag, or load it as a module.
func CanTellSockets() error {
	d, err := hostDiag()
	if err != nil {
		return err
	}
	defer d.close()
	_, err = d.find(0, func(inode) bool { return false })
	return err
}
