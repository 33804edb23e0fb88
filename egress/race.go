package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"
)

// stagger is the pause before the next address is tried while an earlier one
// is still connecting: the recommended "connection attempt delay" of RFC 8305
// section 8.
const stagger = 250 * time.Millisecond

type attempt struct {
	conn net.Conn
	addr netip.Addr
	err  error
}

// race connects to the first of the checked addresses that answers (RFC 8305),
// starting them one after the other. The losers are closed.
func (d *Dialer) race(ctx context.Context, list []netip.Addr, port uint16) (net.Conn, netip.Addr, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	list = interleave(list)
	results := make(chan attempt) // unbuffered: collect takes every one
	next := time.NewTimer(0)
	defer next.Stop()
	started, running := 0, 0
	var errs []error
	for {
		if started < len(list) && running == 0 {
			next.Reset(0)
		}
		select {
		case <-next.C:
			if started == len(list) {
				continue
			}
			go func(a netip.Addr) { results <- d.try(ctx, netip.AddrPortFrom(a, port)) }(list[started])
			started, running = started+1, running+1
			next.Reset(stagger)
		case r := <-results:
			running--
			if r.err == nil {
				cancel()
				collect(results, running)
				return r.conn, r.addr, nil
			}
			if errs = append(errs, r.err); len(errs) == len(list) {
				return nil, netip.Addr{}, errors.Join(errs...)
			}
		}
	}
}

func (d *Dialer) try(ctx context.Context, addr netip.AddrPort) attempt {
	conn, err := d.connect(ctx, addr)
	return attempt{conn: conn, addr: addr.Addr(), err: err}
}

// collect waits for the losers, which end at once since their context has,
// and closes one that won too late.
func collect(results <-chan attempt, running int) {
	for range running {
		if r := <-results; r.conn != nil {
			r.conn.Close()
		}
	}
}

// interleave alternates the address families, beginning with the resolver's
// first choice (RFC 8305 section 4).
func interleave(list []netip.Addr) []netip.Addr {
	var first, second, out []netip.Addr
	for _, a := range list {
		if a.Is4() == list[0].Is4() {
			first = append(first, a)
		} else {
			second = append(second, a)
		}
	}
	for i := range max(len(first), len(second)) {
		if i < len(first) {
			out = append(out, first[i])
		}
		if i < len(second) {
			out = append(out, second[i])
		}
	}
	return out
}
