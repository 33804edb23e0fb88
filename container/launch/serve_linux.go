package launch

import (
	"context"
	"errors"
	"fmt"
	"net"

	"pinfold/event"
	"pinfold/supervise"
)

// serveAll serves the proxy's listener and whatever else is carried.
func (p *Process) serveAll(ctx context.Context) {
	ctx, p.unserve = context.WithCancel(ctx)
	if p.proxy != nil {
		p.background("the proxy", func() error { return p.egress.Serve(ctx, p.proxy) })
	}
	var tell func(event.Event)
	if p.o.AllFlows {
		tell = p.o.emit
	}
	for _, c := range p.carriers {
		c.Outflow = &p.draining.Carried
		p.background(c.Via+" "+c.Target, func() error { return c.Serve(ctx, tell) })
	}
}

// background runs something that ends with the run. If it ends before, nothing
// leaves that way any more: that is no hole, but worth a line.
func (p *Process) background(what string, serve func() error) {
	p.serving.Go(func() {
		if err := serve(); err != nil && !errors.Is(err, net.ErrClosed) {
			p.o.notice(fmt.Sprintf("%s has ended: %v", what, err))
			p.o.emit(event.Event{Kind: event.Network, Action: event.Noticed, Target: what, Reason: "ended"})
		}
	})
}

func (p *Process) endServing() (err error) {
	if p.unserve != nil {
		p.unserve()
	}
	if p.egress != nil {
		if e := p.egress.Close(); e != nil {
			err = fmt.Errorf("cannot end the proxy: %w", e)
		}
	}
	if p.proxy != nil {
		p.proxy.Close() // Close of the server may have done it
	}
	closeCarriers(p.carriers)
	close(p.unwatch)
	p.serving.Wait()
	return err
}

// watchIdle ends a run in which nothing was said, nor sent or brought in
// through the proxy or a port, for the idle timeout.
func (p *Process) watchIdle(ctx context.Context) {
	limit := p.o.Launch.Limits.IdleTimeout
	if supervise.AwaitSilence(ctx, limit, p.heard, p.streams.said.Load, p.egress, &p.draining.Carried) {
		p.mu.Lock()
		p.idle = p.reason == ""
		p.mu.Unlock()
		p.terminate(Timeout, p.o.grace())
	}
}
