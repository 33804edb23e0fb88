package bwrap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"

	"pinfold/event"
	"pinfold/policy"
	"pinfold/supervise"
)

// ports carries network.host_ports in and network.expose out.
type ports struct {
	list   []supervise.Carrier
	seeds  map[int]*seed // by family
	cancel context.CancelFunc
}

func (p *ports) close() {
	if p.cancel != nil {
		p.cancel()
	}
	for _, x := range p.list {
		x.Listener.Close()
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
	p.list = append(p.list, supervise.HostPort(l, use.port))
	return nil
}

func loopback(six bool) netip.Addr {
	if six {
		return netip.IPv6Loopback()
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
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
			if i > 0 && (errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EAFNOSUPPORT)) {
				continue // this machine has no IPv6
			}
			if err != nil {
				return exposeRefusal(e, err)
			}
			s.ports.list = append(s.ports.list, supervise.Carrier{
				Listener: l, Kind: event.Network, Via: "expose", Target: "inside:" + strconv.Itoa(int(e.Inside)), Inward: true,
				Dial: func(ctx context.Context) (net.Conn, error) { return s.ports.dialInside(ctx, e.Inside) },
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
	var tell func(event.Event)
	if s.o.AllFlows {
		tell = s.emit
	}
	for _, x := range s.ports.list {
		x.Outflow = &s.Process.draining.Carried
		s.Process.background(x.Via, func() error { return x.Serve(ctx, tell) })
	}
}
