package egress

import (
	"maps"
	"net"
	"slices"
	"time"
)

// Quiet is how long ago the clients last sent or got anything, by the
// kernel's own clock of each connection, so that bytes which it moves by itself
// count too. Without a connection, or where nobody tells, ok is false.
func (s *Server) Quiet() (least time.Duration, ok bool) {
	s.mu.Lock()
	conns := slices.Collect(maps.Keys(s.conns))
	s.mu.Unlock()
	return leastQuiet(conns)
}

// Quiet is the same of the tunnels that [Outflow.Relay] carries.
func (o *Outflow) Quiet() (least time.Duration, ok bool) {
	o.mu.Lock()
	conns := slices.Collect(maps.Keys(o.clients))
	o.mu.Unlock()
	return leastQuiet(conns)
}

func leastQuiet(conns []net.Conn) (least time.Duration, ok bool) {
	for _, c := range conns {
		if d, known := connQuiet(c); known && (!ok || d < least) {
			least, ok = d, true
		}
	}
	return least, ok
}
