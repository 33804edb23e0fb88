package seatbelt

import (
	"os"

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
// be had back from Go's runtime.
func (p *Process) suspend() {
	p.signalGroup(unix.SIGTSTP)
	p.relay.leave()
	_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
	p.relay.enter()
	p.signalGroup(unix.SIGCONT)
}
