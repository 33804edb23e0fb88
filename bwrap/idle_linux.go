package bwrap

import (
	"context"

	"pinfold/supervise"
)

// watchIdle ends a run in which nothing was said, nor sent or brought in
// through the proxy or a port, for the idle timeout.
func (p *Process) watchIdle(ctx context.Context) {
	if supervise.AwaitSilence(ctx, p.launch.Limits.IdleTimeout, p.monitor.gone, p.said, p.egress, &p.draining.Carried) {
		p.endIdle()
	}
}

func (p *Process) endIdle() {
	p.mu.Lock()
	p.idle = p.reason == ""
	p.mu.Unlock()
	p.terminate(Timeout, p.o.grace())
}
