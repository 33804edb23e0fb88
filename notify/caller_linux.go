package notify

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// caller is the thread that made a call. All that is learnt of it holds only
// if it still waits afterwards.
type caller struct {
	tid   int
	pidfd int
}

func newCaller(tid int) (*caller, error) {
	// PIDFD_THREAD (Linux 6.9) is O_EXCL; before, a pidfd is of a whole
	// process, and EINVAL or ENOENT say that this is no leader.
	fd, err := unix.PidfdOpen(tid, unix.O_EXCL)
	if errors.Is(err, unix.EINVAL) {
		var pid int
		if pid, err = processOf(tid); err == nil {
			fd, err = unix.PidfdOpen(pid, 0)
		}
	}
	if err != nil {
		return nil, err
	}
	return &caller{tid: tid, pidfd: fd}, nil
}

func (c *caller) close() { unix.Close(c.pidfd) }

// processOf is the process that a thread is of.
func processOf(tid int) (int, error) {
	b, err := os.ReadFile(procPath(tid, "status"))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "Tgid:"); ok {
			return strconv.Atoi(strings.TrimSpace(v))
		}
	}
	return 0, fmt.Errorf("process %d has no Tgid", tid)
}

// process is the process of the caller. The kernel tells it at once where it
// can (PIDFD_GET_INFO, Linux 6.13); a status file takes some 20 µs to be
// written, which every connection would wait for.
func (c *caller) process() (int, error) {
	info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_PID}
	err := ioctl(c.pidfd, unix.PIDFD_GET_INFO, unsafe.Pointer(&info))
	if err == nil && info.Mask&unix.PIDFD_INFO_PID != 0 && info.Tgid != 0 {
		return int(info.Tgid), nil
	}
	return processOf(c.tid)
}

func procPath(tid int, name string) string { return "/proc/" + strconv.Itoa(tid) + "/" + name }

// duplicate takes the caller's descriptor: the same open file, so a
// connection made on it is the caller's (pidfd_getfd(2)).
func (c *caller) duplicate(fd int) (int, error) { return unix.PidfdGetfd(c.pidfd, fd, 0) }

// maxAddress is sizeof(struct sockaddr_storage), the longest that connect(2)
// takes.
const maxAddress = 128

// address copies a socket address out of the caller's memory, once.
func (c *caller) address(at, size uint64) ([]byte, error) {
	n := int32(size) // as the kernel takes it
	if n < 2 || n > maxAddress {
		return nil, unix.EINVAL
	}
	buf := make([]byte, n)
	local := []unix.Iovec{{Base: &buf[0], Len: uint64(n)}}
	remote := []unix.RemoteIovec{{Base: uintptr(at), Len: int(n)}}
	got, err := unix.ProcessVMReadv(c.tid, local, remote, 0)
	if err != nil {
		return nil, err
	}
	if got != int(n) {
		return nil, unix.EFAULT
	}
	return buf, nil
}

// who is the caller for an event: its process and the program it runs.
func (c *caller) who() (int, string) {
	pid, err := c.process()
	if err != nil {
		return 0, ""
	}
	program, err := os.Readlink(procPath(c.tid, "exe"))
	if err != nil {
		return pid, ""
	}
	return pid, program
}

// openAt opens what a path means to the caller, without touching it. Errors
// are the errnos that connect(2) would answer.
func (c *caller) openAt(path string) (int, error) {
	switch {
	case path == "":
		return -1, unix.ENOENT
	case strings.HasPrefix(path, selfRoot):
		path = "/" + path[len(selfRoot):]
	case strings.HasPrefix(path, selfDir):
		path = path[len(selfDir):]
	}
	for _, prefix := range descriptorDirs {
		if rest, ok := strings.CutPrefix(path, prefix); ok {
			return c.openDescriptor(rest)
		}
	}
	if !strings.HasPrefix(path, "/") {
		dir, err := os.Readlink(procPath(c.tid, "cwd"))
		if err != nil {
			return -1, unix.EACCES
		}
		path = dir + "/" + path
	}
	root, err := unix.Open(procPath(c.tid, "root"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(root)
	return openBelow(root, path, unix.RESOLVE_IN_ROOT)
}

// The spellings of the caller's own descriptors and directories. The kernel
// would take "self" for this process, which isn't in that /proc at all.
const (
	selfRoot = "/proc/self/root/"
	selfDir  = "/proc/self/cwd/"
)

var descriptorDirs = []string{"/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/"}

// openDescriptor opens "N" or "N/rest": what the caller's descriptor is, and
// what lies beneath. Programs use it for paths that are too long for a socket
// address (108 bytes, unix(7)).
func (c *caller) openDescriptor(text string) (int, error) {
	number, rest, deeper := strings.Cut(text, "/")
	if n, err := strconv.ParseUint(number, 10, 31); err != nil || strconv.FormatUint(n, 10) != number {
		return -1, unix.ENOENT
	}
	fd, err := unix.Open(procPath(c.tid, "fd/"+number), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil || !deeper {
		return fd, err
	}
	defer unix.Close(fd)
	return openBelow(fd, rest, unix.RESOLVE_BENEATH|unix.RESOLVE_NO_SYMLINKS)
}

// openTries bounds the lookups that renames disturb (EAGAIN, openat2(2)).
const openTries = 16

func openBelow(dir int, path string, resolve uint64) (int, error) {
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolve | unix.RESOLVE_NO_MAGICLINKS}
	var err error
	for range openTries {
		var fd int
		fd, err = unix.Openat2(dir, path, how)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
	return -1, err
}

// cString is the part of a path before its first NUL.
func cString(b []byte) string {
	head, _, _ := bytes.Cut(b, []byte{0})
	return string(head)
}
