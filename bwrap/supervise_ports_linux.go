package bwrap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/egress"
	"pinfold/event"
	"pinfold/policy"
)

// The bounds of what is carried by port.
const (
	maxPortConns = 256           // of each port, at once
	portIdle     = 4 * time.Hour // as in the proxy's tunnels
	portTimeout  = 10 * time.Second
)

// ports carries network.host_ports in and network.expose out.
type ports struct {
	list   []port
	seeds  map[int]*seed // by family
	cancel context.CancelFunc
}

// port is one listener with where its connections lead.
type port struct {
	l      net.Listener
	dial   func(context.Context) (net.Conn, error)
	via    string
	target string
}

func (p *ports) close() {
	if p.cancel != nil {
		p.cancel()
	}
	for _, x := range p.list {
		x.l.Close()
	}
	for _, s := range p.seeds {
		s.close()
	}
	p.seeds = nil
}

// place takes a socket that the stub made.
func (p *ports) place(fd int, use socketUse) error {
	switch use.kind {
	case usePort, usePort6:
		return p.addHostPort(fd, use)
	case useSeed, useHatch, useSeed6, useHatch6:
		return p.addSeed(fd, use)
	}
	unix.Close(fd)
	return fmt.Errorf("internal error: a socket for %q", use.kind)
}

func (p *ports) addHostPort(fd int, use socketUse) error {
	at := netip.AddrPortFrom(loopback(use.kind == usePort6), use.port)
	l, err := listener(fd, at)
	if err != nil {
		if use.kind == usePort6 && errors.Is(err, unix.EADDRNOTAVAIL) {
			return nil // IPv6 is switched off inside
		}
		return err
	}
	number := strconv.Itoa(int(use.port))
	p.list = append(p.list, port{l: l, via: "host_port", target: "127.0.0.1:" + number, dial: func(ctx context.Context) (net.Conn, error) {
		return dialHost(ctx, number)
	}})
	return nil
}

func loopback(six bool) netip.Addr {
	if six {
		return netip.IPv6Loopback()
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

// dialHost reaches a port of the host's loopback, of whichever family its
// service is.
func dialHost(ctx context.Context, number string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", "127.0.0.1:"+number)
	if err == nil {
		return conn, nil
	}
	conn, err6 := d.DialContext(ctx, "tcp", "[::1]:"+number)
	if err6 == nil {
		return conn, nil
	}
	return nil, err
}

// listenOutside opens the ports of network.expose on the host, before
// anything is started: one that is taken refuses the launch.
func (s *launcher) listenOutside() error {
	for _, e := range s.launch.expose {
		addresses := []string{e.Address}
		if e.Address == "" {
			addresses = []string{"127.0.0.1", "::1"}
		}
		for i, a := range addresses {
			l, err := net.Listen("tcp", net.JoinHostPort(a, strconv.Itoa(int(e.Outside)))) //nolint:noctx // it doesn't wait
			if err != nil && i == 0 {
				return exposeRefusal(e, err)
			}
			if err != nil {
				continue // no IPv6
			}
			s.ports.list = append(s.ports.list, port{
				l: l, via: "expose", target: "inside:" + strconv.Itoa(int(e.Inside)),
				dial: func(ctx context.Context) (net.Conn, error) { return s.ports.dialInside(ctx, e.Inside) },
			})
		}
	}
	return nil
}

func exposeRefusal(e policy.Expose, err error) error {
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "expose_failed", Subject: e.Text, Rule: "network.expose",
		Why: fmt.Sprintf("cannot expose %q: %v", e.Text, err),
		Fix: "end what listens there, or expose another port", Err: err,
	}
}

// dialInside reaches a server inside. It may have started a moment ago, or
// be of IPv6 alone.
func (p *ports) dialInside(ctx context.Context, number uint16) (net.Conn, error) {
	var errs []error
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		s := p.seeds[family]
		if s == nil || s.hatch < 0 {
			continue
		}
		conn, err := s.dial(ctx, netip.AddrPortFrom(loopback(family == unix.AF_INET6), number))
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// servePorts starts carrying.
func (s *launcher) servePorts(ctx context.Context) {
	ctx, s.ports.cancel = context.WithCancel(ctx)
	for _, x := range s.ports.list {
		s.Process.background(x.via, func() error { return s.Process.servePort(ctx, x) })
	}
}

// servePort accepts until the listener is closed.
func (p *Process) servePort(ctx context.Context, x port) error {
	places := make(chan struct{}, maxPortConns)
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		conn, err := x.l.Accept()
		switch {
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			if err == nil {
				conn.Close()
			}
			return nil
		case err != nil:
			return fmt.Errorf("cannot accept connections on %s: %w", x.l.Addr(), err)
		}
		select {
		case places <- struct{}{}:
			wg.Go(func() {
				defer func() { <-places }()
				p.carry(ctx, x, conn)
			})
		default:
			conn.Close()
		}
	}
}

// carry is one connection of a port.
func (p *Process) carry(ctx context.Context, x port, conn net.Conn) {
	began := time.Now()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	dialing, cancel := context.WithTimeout(ctx, portTimeout)
	defer cancel()
	to, err := x.dial(dialing)
	if err != nil {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // refused, as far as can be told by now
		}
		conn.Close()
		return
	}
	end := context.AfterFunc(ctx, func() { to.Close() })
	defer end()
	up, down, _ := egress.Relay(conn, to, portIdle)
	if p.o.Events != nil && p.o.AllFlows {
		p.o.Events.Emit(event.Event{
			Time: time.Now(), Run: p.o.Run, Kind: event.Network, Action: event.Allowed, Target: x.target,
			Via: x.via, Up: up, Down: down, Duration: time.Since(began),
		})
	}
}
