package bwrap

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"pinfold/bwrap/cgroup"
)

// holdScope stops bubblewrap's monitor while the sandbox lives. systemd
// removes a scope's cgroup once its last process has ended, and with it goes
// what tells that memory ran out; a process that is stopped keeps it. From the
// stub's greeting on the monitor does nothing but wait for the sandbox's end,
// it is alone in its session, and SIGKILL reaches it as ever.
func (s *launcher) holdScope() error {
	if !s.tree.Fleeting() {
		return nil
	}
	fd, err := unix.FcntlInt(uintptr(s.family.initFD), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot keep the sandbox's pid 1 in sight: %w", err)
	}
	held := &heldScope{done: make(chan struct{})}
	if err := unix.PidfdSendSignal(s.monitor.pidfd, unix.SIGSTOP, nil, 0); err != nil {
		return errors.Join(fmt.Errorf("cannot hold bubblewrap: %w", err), unix.Close(fd))
	}
	s.held = held
	go held.until(fd, s.monitor.pidfd, s.tree.Stats)
	return nil
}

// heldScope is what a scope's cgroup said last.
type heldScope struct {
	done chan struct{}
	used cgroup.Stats
}

// until waits for the end of the sandbox, reads what it has used and lets
// bubblewrap go.
func (h *heldScope) until(initFD, monitorFD int, read func() cgroup.Stats) {
	defer close(h.done)
	fds := []unix.PollFd{{Fd: int32(initFD), Events: unix.POLLIN}}
	for {
		if _, err := unix.Poll(fds, -1); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	h.used = read()
	_ = unix.PidfdSendSignal(monitorFD, unix.SIGCONT, nil, 0) // it may have been killed
	unix.Close(initFD)
}

// stats are the tree's, or what was read of it while it was there.
func (p *Process) stats() cgroup.Stats {
	if p.held == nil {
		return p.tree.Stats()
	}
	<-p.held.done
	return p.held.used
}
