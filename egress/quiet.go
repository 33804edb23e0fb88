package egress

import (
	"net"
	"sync/atomic"
	"time"
)

// Quiet is how long ago the clients last sent or got anything that was carried,
// also on connections that have ended since. What was refused is no traffic.
// Before the first that was carried ok is false.
func (s *Server) Quiet() (least time.Duration, ok bool) { return s.outflow.Quiet() }

// Quiet is the same of the tunnels that [Outflow.Relay] carries.
func (o *Outflow) Quiet() (least time.Duration, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.last.IsZero() {
		least, ok = time.Since(o.last), true
	}
	for g := range o.goingOn {
		if d := g.quiet(); !ok || d < least {
			least, ok = d, true
		}
	}
	return least, ok
}

// going is what is carried for a client now.
type going struct {
	client net.Conn
	moved  *atomic.Int64 // when something last did, as far as was seen; Unix nanoseconds
}

// quiet goes by the kernel's own clock of the connection, so that bytes which
// it moves by itself count too, unless nobody tells or it is closed already.
func (g going) quiet() time.Duration {
	if d, known := connQuiet(g.client); known {
		return d
	}
	return g.since()
}

// since bears with a clock that was set back.
func (g going) since() time.Duration {
	return max(0, time.Since(time.Unix(0, g.moved.Load())))
}

// goesOn notes that something is carried for a client from now until it is
// told that it has ended, which can be long after all has gone out.
func (o *Outflow) goesOn(client net.Conn, moved *atomic.Int64) (ended func()) {
	if o == nil {
		return func() {}
	}
	g := going{client, moved}
	moved.Store(time.Now().UnixNano())
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.goingOn == nil {
		o.goingOn = map[going]struct{}{}
	}
	o.goingOn[g] = struct{}{}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.goingOn, g)
		if at := time.Now().Add(-g.since()); at.After(o.last) {
			o.last = at
		}
	}
}
