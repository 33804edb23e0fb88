package launch

import (
	"golang.org/x/sys/unix"

	"pinfold/supervise"
)

// forward is what becomes of a signal that this process got. One that asks the
// command to end is noted before it is sent.
func (p *Process) forward(sig unix.Signal) {
	switch {
	case p.terminal && sig == unix.SIGWINCH:
		p.o.Terminal.Resize() // the kernel tells the command
		return
	case p.terminal && sig == unix.SIGCONT:
		p.o.Terminal.Continued(func() { _ = p.Signal(sig) })
		return
	}
	if supervise.AsksToEnd(sig) {
		p.draining.Signal(sig)
		p.mu.Lock()
		p.passed = sig
		p.mu.Unlock()
		p.note(unix.SignalName(sig))
	}
	_ = p.Signal(sig) // the command may just have ended
}
