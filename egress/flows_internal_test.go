package egress

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// A connection may wait by an address that an earlier one still waits by: the
// kernel gives ports away again. Neither may hold the other up.
func TestFlowsOfOneAddress(t *testing.T) {
	t.Parallel()
	f, from := newFlows(), netip.MustParseAddrPort("127.0.0.1:40000")
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if p := f.take(context.Background(), from, 20*time.Millisecond); p != nil {
				t.Errorf("got %+v, and nobody announced it", p)
			}
		})
	}
	wg.Wait()
	f.put(from, &pending{pid: 1})
	f.put(from, &pending{pid: 2})
	if p := f.take(context.Background(), from, time.Second); p == nil || p.pid != 2 {
		t.Errorf("got %+v, wanted the last announcement", p)
	}
	if p := f.take(context.Background(), from, 0); p != nil {
		t.Errorf("got %+v twice", p)
	}
}

// What never arrives is forgotten, the oldest first.
func TestFlowsAreBounded(t *testing.T) {
	t.Parallel()
	f := newFlows()
	at := func(n int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, byte(n >> 8), byte(n)}), 1)
	}
	for n := range 2 * maxPending {
		f.put(at(n), &pending{pid: n})
	}
	if len(f.pending) != maxPending || len(f.order) != maxPending {
		t.Errorf("%d and %d are kept", len(f.pending), len(f.order))
	}
	if p := f.take(context.Background(), at(2*maxPending-1), 0); p == nil {
		t.Error("the newest is gone")
	}
}
