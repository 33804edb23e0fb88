package notify

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// request is struct seccomp_notif, seccomp_unotify(2).
type request struct {
	id    uint64
	pid   uint32 // a thread, as this process counts
	flags uint32
	data  struct {
		number int32
		arch   uint32
		ip     uint64
		args   [6]uint64
	}
}

// response is struct seccomp_notif_resp. Its flags stay zero: the one there
// is, SECCOMP_USER_NOTIF_FLAG_CONTINUE, is not for a policy (see the manual).
type response struct {
	id    uint64
	value int64
	error int32
	flags uint32
}

// sizes is struct seccomp_notif_sizes: a kernel may know of longer ones.
type sizes struct{ request, response, data uint16 }

func notificationSizes() (sizes, error) {
	var s sizes
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_NOTIF_SIZES, 0, uintptr(unsafe.Pointer(&s)))
	if errno != 0 {
		return s, fmt.Errorf("cannot learn the size of a notification: %w", errno)
	}
	return s, nil
}

// receive takes the next request without waiting; EAGAIN where there is none.
func receive(fd int, buf []byte) (request, error) {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	switch {
	case errors.Is(err, unix.EINTR) || err == nil && n == 0:
		return request{}, unix.EAGAIN
	case err != nil:
		return request{}, err
	case fds[0].Revents&unix.POLLIN == 0:
		return request{}, unix.ENOTCONN // nobody is left who has the filter
	}
	clear(buf)
	if err := ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_RECV, unsafe.Pointer(&buf[0])); err != nil {
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINTR) {
			return request{}, errGone // it was killed between the two calls
		}
		return request{}, err
	}
	return *(*request)(unsafe.Pointer(&buf[0])), nil
}

// errGone is a caller that doesn't wait any more.
var errGone = errors.New("the caller is gone")

// reply answers a request; ENOENT: the caller is gone.
func reply(fd int, id uint64, errno unix.Errno) error {
	r := response{id: id, error: -int32(errno)}
	return ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_SEND, unsafe.Pointer(&r))
}

// isWaiting says whether the caller still waits for the answer. What was
// learnt through its pid before is then about the caller, since a thread that
// waits can't have given its pid away.
func isWaiting(fd int, id uint64) bool {
	return ioctl(fd, unix.SECCOMP_IOCTL_NOTIF_ID_VALID, unsafe.Pointer(&id)) == nil
}

func ioctl(fd int, number uint, arg unsafe.Pointer) error {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(number), uintptr(arg))
	runtime.KeepAlive(arg)
	if errno != 0 {
		return errno
	}
	return nil
}
