package egress

import (
	"context"
	"net/netip"
	"sync"
	"time"
)

// maxPending bounds the connections that were announced and haven't arrived:
// those that failed or were given up never will.
const maxPending = 4096

// pending is a connection on its way.
type pending struct {
	target  Target
	pid     int
	program string
	number  uint64 // of the announcement
}

// flows knows connections by their source address. Announcement and arrival
// come in any order.
type flows struct {
	mu      sync.Mutex
	pending map[netip.AddrPort]*pending
	order   []announced // by age, those that have arrived among them
	last    uint64
	waiting map[netip.AddrPort]chan *pending
}

type announced struct {
	from   netip.AddrPort
	number uint64
}

func newFlows() *flows {
	return &flows{pending: map[netip.AddrPort]*pending{}, waiting: map[netip.AddrPort]chan *pending{}}
}

// put announces a connection.
func (f *flows) put(from netip.AddrPort, p *pending) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ch := f.waiting[from]; ch != nil {
		delete(f.waiting, from)
		ch <- p // it has room
		return
	}
	f.last++
	p.number = f.last
	f.pending[from] = p
	f.order = append(f.order, announced{from, p.number})
	for len(f.order) > maxPending {
		if old := f.order[0]; f.pending[old.from] != nil && f.pending[old.from].number == old.number {
			delete(f.pending, old.from)
		}
		f.order = f.order[1:]
	}
}

// take finds the announcement of a connection that has arrived, and waits for
// it as long as it is told to, or until ctx ends. Nil: there was none.
func (f *flows) take(ctx context.Context, from netip.AddrPort, wait time.Duration) *pending {
	ch, p := f.expect(from, wait)
	if p != nil || ch == nil {
		return p
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case p = <-ch:
		return p
	case <-timer.C:
	case <-ctx.Done():
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.waiting[from] == ch {
		delete(f.waiting, from)
	}
	select {
	case p = <-ch: // it came at the last moment
	default: // never, or another connection waits by the same address by now
	}
	return p
}

func (f *flows) expect(from netip.AddrPort, wait time.Duration) (chan *pending, *pending) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.pending[from]; p != nil {
		delete(f.pending, from)
		return nil, p
	}
	if wait == 0 {
		return nil, nil
	}
	ch := make(chan *pending, 1)
	f.waiting[from] = ch
	return ch, nil
}
