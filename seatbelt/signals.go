package seatbelt

import (
	"os"
	"os/signal"

	"golang.org/x/sys/unix"
)

// forward is what becomes of a signal that this process got. The errors are
// those of a command that has just ended.
func (p *Process) forward(sig unix.Signal) {
	switch {
	case sig == unix.SIGTSTP:
		p.suspend()
	case sig == unix.SIGCONT:
		p.relay.enter()
		p.signalGroup(unix.SIGCONT)
	case sig == unix.SIGWINCH && p.relay != nil:
		p.relay.resize() // the kernel tells the command
	default:
		p.draining.Signal(sig)
		_ = p.Signal(sig)
	}
}

// suspend stops the run's group, then this process; whoever continues this
// process continues both. SIGSTOP because the default action of SIGTSTP can't
// be had back from Go's runtime. A shell whose job is the parent of this
// process may continue the group before that: then it is not to stop any more.
func (p *Process) suspend() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, unix.SIGCONT)
	defer signal.Stop(continued)
	p.signalGroup(unix.SIGTSTP)
	p.relay.leave()
	select {
	case <-continued:
	default:
		_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	}
	p.relay.enter()
	p.signalGroup(unix.SIGCONT)
}
