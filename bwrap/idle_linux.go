package bwrap

import (
	"context"
	"time"
)

// quieter is an [Egress] that knows how long nothing has gone through it.
type quieter interface {
	Quiet() (least time.Duration, ok bool)
}

// The idle timeout is looked at twenty times in its length, though not more
// than a hundred times a second.
const (
	idleLooks   = 20
	minIdleLook = 10 * time.Millisecond
)

// watchIdle ends a run in which nothing was said, nor sent or brought in
// through the proxy, for the idle timeout. Nothing tells of silence, so it
// looks. The time in which this process itself was stopped doesn't count.
func (p *Process) watchIdle(ctx context.Context) {
	limit := p.launch.Limits.IdleTimeout
	look := max(limit/idleLooks, minIdleLook)
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	before, since, last := p.said(), time.Now(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.monitor.gone:
			return
		case <-ticker.C:
		}
		now := time.Now()
		if gap := now.Sub(last); gap > 4*look {
			since = since.Add(gap - look)
		}
		last = now
		if said := p.said(); said != before {
			before, since = said, now
		}
		if q, ok := p.egress.(quieter); ok {
			if d, active := q.Quiet(); active && now.Add(-d).After(since) {
				since = now.Add(-d)
			}
		}
		if now.Sub(since) >= limit {
			p.endIdle()
			return
		}
	}
}

func (p *Process) endIdle() {
	p.mu.Lock()
	p.idle = p.reason == ""
	p.mu.Unlock()
	p.terminate(Timeout, p.o.grace())
}
