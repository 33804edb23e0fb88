package bwrap

import (
	"errors"

	"golang.org/x/sys/unix"

	"pinfold/policy"
)

// again asks whether the launch is to be made anew. That is a question only
// where bubblewrap ended before anything came out of the sandbox, so that not
// even the stub has run, or where this side couldn't mount the covers; cause
// decides nothing but that. A bubblewrap that had done everything may not have
// been let execute a file without a name.
func (s *launcher) again(cause error) bool {
	r, ok := errors.AsType[*policy.Refusal](cause)
	switch {
	case !ok || s.o.Again == nil || s.monitor == nil || s.used.OOMKills > 0:
		return false
	case r.Code == codeLater && unix.Getuid() == 0:
		return s.o.Again(Failed) // bubblewrap can't keep the devices' modes
	case r.Code == codeLater:
		if forbidden(r.Err) {
			s.o.Ahead.rememberWhole()
		}
		return s.o.Again(CannotMount)
	case r.Code != "bwrap_failed" || s.monitor.settled:
		return false
	case s.unrun && s.launch.Stub == StubFile:
		return s.o.Again(CannotRun)
	}
	return s.o.Again(Failed)
}

// forbidden reports whether mounting inside will fail the next time as well: a
// filter or a security module refuses it, or ends who tries.
func forbidden(err error) bool {
	_, told := errors.AsType[unix.Errno](err)
	return !told || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.ENOSYS)
}

// MountTable notices that the mounts of this process's namespace change.
type MountTable struct{ fd int }

// WatchMounts begins to watch the mount table; nil is for one that can't be
// watched. It reads nothing: the kernel counts (proc_pid_mountinfo(5), poll(2)).
func WatchMounts() *MountTable {
	// Not os.Open: Go's own poller would take the news away.
	fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return &MountTable{fd: fd}
}

// Changed reports whether a mount was made, changed or removed since the last
// call, or since the watch began.
func (t *MountTable) Changed() bool {
	if t == nil {
		return false
	}
	for {
		p := []unix.PollFd{{Fd: int32(t.fd), Events: unix.POLLPRI}}
		_, err := unix.Poll(p, 0)
		if !errors.Is(err, unix.EINTR) {
			return err == nil && p[0].Revents&unix.POLLPRI != 0
		}
	}
}

// Close ends the watch.
func (t *MountTable) Close() {
	if t != nil {
		unix.Close(t.fd)
	}
}
