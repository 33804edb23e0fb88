package egress

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

var loopback4 = netip.MustParseAddr("127.0.0.1")

// The ways in beside the proxy's, as an event's via.
const (
	viaTransparent = "transparent"
	viaDNS         = "dns"
)

// Transparent carries what programs send without knowing of any proxy. Names
// get made-up addresses ([Transparent.ServeNames]); whoever hears of each
// connection asks [Transparent.Route], and leads it to the listener of
// [Transparent.ServeFlows], which knows it by its source address. The verdict
// is the [Decider]'s and the [Dialer]'s, as for the proxy.
type Transparent struct {
	*Server

	wg    sync.WaitGroup
	names *names
	flows *flows
}

// NewTransparent takes a server, whose bounds, events and connections it
// shares.
func NewTransparent(s *Server) *Transparent {
	s.once.Do(s.init)
	t := &Transparent{Server: s, names: newNames(), flows: newFlows()}
	s.transparent.Store(t) // the server may be at work already
	return t
}

// Route is what to do about a connection.
type Route struct {
	// Refused is the errno of the call, if it is refused.
	Refused syscall.Errno
	// Capture: lead it to the listener of ServeFlows, and call Started.
	Capture bool
	// Started must be told the connection's source address as soon as it has
	// one; nil for nobody.
	Started func(from netip.AddrPort)
}

// Route judges a connection to an address, before it is made. A name is
// judged again with its port here; what its name resolves to is judged when
// the flow is dialled.
func (t *Transparent) Route(to netip.AddrPort, stream bool, who func() (int, string)) Route {
	addr := to.Addr().WithZone("")
	switch {
	case !stream:
		return Route{} // the sandbox's own network has no way out
	case addr.IsLoopback() || addr.IsUnspecified():
		return Route{Started: t.note(who)}
	}
	target := Target{Host: addr.String(), Port: to.Port()}
	if madeUp.Contains(addr) {
		if name, ok := t.names.name(addr); ok {
			target.Host = name
		}
	}
	f := flow{target: target, via: viaTransparent, began: time.Now()}
	c := &client{s: t.Server}
	v := t.Decider.Decide(target)
	if err := v.err(target); err != nil {
		c.pid, c.program = who()
		c.emitDenied(f, err)
		return Route{Refused: syscall.EACCES}
	}
	pid, program := 0, ""
	if t.Events != nil {
		pid, program = who()
	}
	return Route{Capture: true, Started: func(from netip.AddrPort) {
		t.flows.put(from, &pending{target: target, pid: pid, program: program})
	}}
}

// note remembers whose connection it is, for the proxy's events.
func (t *Transparent) note(who func() (int, string)) func(netip.AddrPort) {
	if t.Events == nil {
		return nil
	}
	pid, program := who()
	return func(from netip.AddrPort) { t.flows.put(from, &pending{pid: pid, program: program}) }
}

// peer tells the proxy who a client is.
func (t *Transparent) peer(conn net.Conn) (int, string) {
	if p := t.flows.take(context.Background(), addrPort(conn.RemoteAddr()), 0); p != nil {
		return p.pid, p.program
	}
	return 0, ""
}

func addrPort(a net.Addr) netip.AddrPort {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	ap := tcp.AddrPort()
	return netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port())
}

// ServeFlows carries the captured connections that arrive at ln until it is
// closed or ctx ends.
func (t *Transparent) ServeFlows(ctx context.Context, ln net.Listener) error {
	if !t.track(ln) {
		ln.Close()
		return nil
	}
	swift(ln)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	for {
		conn, err := ln.Accept()
		switch {
		case err == nil:
			t.startFlow(ctx, conn)
		case t.isClosed() || ctx.Err() != nil:
			return nil
		case !isShortage(err):
			return fmt.Errorf("cannot accept connections: %w", err)
		default:
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond): // nothing tells when a descriptor is free
			}
		}
	}
}

func (t *Transparent) startFlow(ctx context.Context, conn net.Conn) {
	switch t.add(conn) {
	case added:
		go t.serveFlow(ctx, conn)
	case full:
		t.emitOverload()
		reset(conn)
	case closing:
		conn.Close()
	}
}

// flowWait bounds how long a connection may be here before its source address
// is: one that nobody announced was made to this port by its number.
const flowWait = 5 * time.Second

// serveFlow is one captured connection. A program learns by a reset that it
// can't be carried on.
func (t *Transparent) serveFlow(ctx context.Context, conn net.Conn) {
	defer t.Server.wg.Done()
	defer t.remove(conn)
	c := &client{s: t.Server, conn: conn, br: bufio.NewReaderSize(conn, 16)}
	c.busy()
	defer c.free()
	p := t.flows.take(ctx, addrPort(conn.RemoteAddr()), flowWait)
	if p == nil || p.target.Host == "" {
		reset(conn)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.ctx, c.pid, c.program = ctx, p.pid, p.program
	f := flow{target: p.target, via: viaTransparent, began: time.Now()}
	server, v, err := t.Dialer.Dial(ctx, p.target)
	if err != nil {
		c.emitDenied(f, asError(p.target, err))
		reset(conn)
		return
	}
	defer server.Close()
	c.carry(f, v, server)
}

// Close ends everything.
func (t *Transparent) Close() error {
	err := t.Server.Close()
	t.Server.wg.Wait()
	t.wg.Wait()
	return err
}
