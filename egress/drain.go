package egress

import (
	"context"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// What a command has sent before it ended is on its way still: in the receive
// queue of a connection, where without a boundary the kernel would go on
// sending it. So it is carried on, as long as it gets on.
const (
	// drainLook is how often it is looked.
	drainLook = 10 * time.Millisecond
	// drainStall is how long nothing may move: a server that takes no more
	// doesn't hold up the end of a run for longer.
	drainStall = time.Second
)

// Outflow knows the tunnels through which something may be on its way out.
// Nil and the zero value know none.
type Outflow struct {
	mu      sync.Mutex
	open    map[*leaving]struct{}
	goingOn map[going]struct{} // what is carried, either way
	last    time.Time          // when what isn't any more last moved
}

// leaving is one way of a tunnel.
type leaving struct {
	from  net.Conn // the connection from inside
	moved *atomic.Int64
}

// add notes one way of a tunnel until it is told that all has gone.
func (o *Outflow) add(from net.Conn, moved *atomic.Int64) (gone func()) {
	if o == nil {
		return func() {}
	}
	l := &leaving{from: from, moved: moved}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.open == nil {
		o.open = map[*leaving]struct{}{}
	}
	o.open[l] = struct{}{}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.open, l)
	}
}

// Hold notes a connection from inside that nothing carries yet, until it is
// free again.
func (o *Outflow) Hold(from net.Conn) (free func()) { return o.add(from, new(atomic.Int64)) }

// Relay is [Relay] of what leaves: from inside the client sends, or with
// inward the server. taken is called once that is known; nil for nobody.
func (o *Outflow) Relay(client, server net.Conn, idle time.Duration, inward bool, taken func()) (up, down int64, err error) {
	t := &tunnel{client: client, server: server, idle: idle, outflow: o, inward: inward, taken: taken}
	err = t.run(context.Background())
	return t.up.Load(), t.down.Load(), err
}

// Drain returns when everything has gone out, when nothing of it has moved for
// a second, or at the end of ctx. Call it when nobody inside can send any more,
// and before anything is closed: what was connected to one of the listeners and
// wasn't accepted yet is waited for as well.
func (o *Outflow) Drain(ctx context.Context, listeners ...net.Listener) {
	if o == nil {
		return
	}
	last, since := o.look(listeners), time.Now()
	if last.open == 0 {
		return
	}
	tick := time.NewTicker(drainLook)
	defer tick.Stop()
	for last.open > 0 && time.Since(since) < drainStall {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now := o.look(listeners); now != last {
			last, since = now, time.Now()
		}
	}
}

// state is what tells whether anything has moved.
type state struct {
	open          int
	moved, queued int64
}

// look counts also what waits to be read, since a busy tunnel counts what it
// has moved only now and then.
func (o *Outflow) look(listeners []net.Listener) state {
	var s state
	for _, ln := range listeners {
		if isReady(ln) {
			s.open++
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for l := range o.open {
		s.open++
		s.moved += l.moved.Load()
		s.queued += int64(queued(bare(l.from)))
	}
	return s
}

// Drain lets what clients that have ended have sent go out.
func (s *Server) Drain(ctx context.Context) {
	s.once.Do(s.init)
	s.mu.Lock()
	listeners := slices.Collect(maps.Keys(s.listeners))
	s.mu.Unlock()
	s.outflow.Drain(ctx, listeners...)
}
