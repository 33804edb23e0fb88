package notify

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
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
	return canReadMemory()
}

// canReadMemory says why the address of a connection can't be read out of the
// caller's memory. A filter refuses that for one's own memory too. Yama's
// scope 3 refuses it for everybody else's, where 1 and 2 let the owner of the
// target's user namespace do it (yama_ptrace_access_check in
// security/yama/yama_lsm.c).
func canReadMemory() error {
	var pin runtime.Pinner
	defer pin.Unpin()
	from, to := new(byte), new(byte)
	pin.Pin(from)
	local := []unix.Iovec{{Base: to, Len: 1}}
	remote := []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(from)), Len: 1}}
	if _, err := unix.ProcessVMReadv(os.Getpid(), local, remote, 0); err != nil {
		return fmt.Errorf("process_vm_readv is refused: %w", err)
	}
	scope, err := os.ReadFile("/proc/sys/kernel/yama/ptrace_scope")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("cannot tell whether Yama lets memory be read: %w", err)
	case strings.TrimSpace(string(scope)) == "3":
		return errors.New("Yama's ptrace_scope is 3, which forbids reading another process's memory")
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
