package supervise

import (
	"context"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/egress"
)

// DrainLimit is how long a run may go on after its command for what that had
// sent before, which [egress.Outflow.Drain] gives up earlier if nothing moves.
const DrainLimit = 30 * time.Second

// Draining lets what a command sent before it ended go out. The zero value is
// ready.
type Draining struct {
	// Carried is what the carriers tell of.
	Carried egress.Outflow

	mu     sync.Mutex
	cancel context.CancelFunc
}

// Run is for the time between the end of everything inside and the end of what
// serves it: the proxy, which may be nil, and the carriers.
func (d *Draining) Run(proxy any, list []Carrier) {
	ctx, cancel := context.WithTimeout(context.Background(), DrainLimit)
	defer cancel()
	d.mu.Lock()
	d.cancel = cancel
	d.mu.Unlock()
	if p, ok := proxy.(interface{ Drain(context.Context) }); ok {
		p.Drain(ctx)
	}
	var listeners []net.Listener
	for _, c := range list {
		if !c.Inward {
			listeners = append(listeners, c.Listener)
		}
	}
	d.Carried.Drain(ctx, listeners...)
}

// Signal ends a Run for one who asks this process to end meanwhile.
func (d *Draining) Signal(sig unix.Signal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cancel != nil && AsksToEnd(sig) {
		d.cancel()
	}
}
