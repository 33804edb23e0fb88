package bwrap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/event"
	"pinfold/notify"
	"pinfold/stub/wire"
)

// Where the supervisor listens on the sandbox's own loopback, beside the
// proxy. The address of captured connections is one that no program uses.
var (
	namesAddress  = netip.MustParseAddrPort("127.0.0.1:53")
	flowsAddress  = netip.MustParseAddrPort("127.198.18.1:31280")
	flows6Address = netip.MustParseAddrPort("[::1]:31280")
)

// transparency is what serves a launch without a proxy.
type transparency struct {
	names    net.PacketConn
	namesTCP net.Listener
	flows    net.Listener
	flows6   net.Listener // nil where the sandbox has no IPv6
	cancel   context.CancelFunc
}

func (t *transparency) close() {
	if t.cancel != nil {
		t.cancel()
	}
	if t.names != nil {
		t.names.Close()
	}
	for _, l := range []net.Listener{t.namesTCP, t.flows, t.flows6} {
		if l != nil {
			l.Close()
		}
	}
}

// sortSockets gives the sockets that the stub made to whom they are for. It
// owns them all, whatever it returns.
func (s *launcher) sortSockets(fds []int, o *notify.Options) error {
	var errs []error
	for i, fd := range fds {
		if err := checkSocket(fd, s.setup.Sockets[i]); err != nil {
			errs = append(errs, err)
			closeFD(&fd)
			continue
		}
		errs = append(errs, s.placeSocket(fd, s.launch.uses[i], o))
	}
	return errors.Join(errs...)
}

// placeSocket takes the descriptor.
func (s *launcher) placeSocket(fd int, use socketUse, o *notify.Options) (err error) {
	t := &s.transparency
	switch use.kind {
	case useDiag:
		o.Diag = fd
		return nil
	case useNames:
		if o.Witness, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0); err == nil {
			t.names, err = packetConn(fd, namesAddress)
		}
	case useNamesTCP:
		t.namesTCP, err = listener(fd, namesAddress)
	case useFlows:
		t.flows, err = listener(fd, flowsAddress)
	case useFlows6:
		if t.flows6, err = listener(fd, flows6Address); errors.Is(err, unix.EADDRNOTAVAIL) {
			err = nil // IPv6 is switched off inside
		}
	default:
		return s.ports.place(fd, use)
	}
	return err
}

// checkSocket checks that a descriptor is a fresh socket of a kind.
func checkSocket(fd int, want wire.Socket) error {
	for _, o := range []struct {
		name      string
		opt, want int
	}{
		{"domain", unix.SO_DOMAIN, want.Domain},
		{"type", unix.SO_TYPE, want.Type},
		{"protocol", unix.SO_PROTOCOL, want.Protocol},
		{"state", unix.SO_ACCEPTCONN, 0},
	} {
		got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, o.opt)
		if err != nil {
			return fmt.Errorf("cannot check a socket: %w", err)
		}
		if got != o.want {
			return fmt.Errorf("a socket is something else: its %s is %d, not %d", o.name, got, o.want)
		}
	}
	return nil
}

// bind binds a socket of the sandbox's, which this process owns the network
// namespace of: so any port is its to bind (capabilities(7),
// CAP_NET_BIND_SERVICE counts in the namespace's owner).
func bind(fd int, at netip.AddrPort) error {
	var sa unix.Sockaddr
	if at.Addr().Is4() {
		sa = &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()}
	} else {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
			return fmt.Errorf("cannot set up %s: %w", at, err)
		}
		sa = &unix.SockaddrInet6{Port: int(at.Port()), Addr: at.Addr().As16()}
	}
	if err := unix.Bind(fd, sa); err != nil {
		return fmt.Errorf("cannot bind %s inside: %w", at, err)
	}
	return nil
}

// backlog is cut by the kernel to net.core.somaxconn.
const backlog = 4096

// listener makes a socket listen. It takes the descriptor.
func listener(fd int, at netip.AddrPort) (net.Listener, error) {
	f := os.NewFile(uintptr(fd), "listener "+at.String())
	defer f.Close() // FileListener has its own copy
	if err := bind(fd, at); err != nil {
		return nil, err
	}
	if err := unix.Listen(fd, backlog); err != nil {
		return nil, fmt.Errorf("cannot listen on %s inside: %w", at, err)
	}
	l, err := net.FileListener(f)
	if err != nil {
		return nil, fmt.Errorf("cannot use the listener for %s: %w", at, err)
	}
	return l, nil
}

// packetConn is the same for datagrams.
func packetConn(fd int, at netip.AddrPort) (net.PacketConn, error) {
	f := os.NewFile(uintptr(fd), "socket "+at.String())
	defer f.Close() // FilePacketConn has its own copy
	if err := bind(fd, at); err != nil {
		return nil, err
	}
	c, err := net.FilePacketConn(f)
	if err != nil {
		return nil, fmt.Errorf("cannot use the socket for %s: %w", at, err)
	}
	return c, nil
}

// serveTransparent serves names and captured connections.
func (s *launcher) serveTransparent(ctx context.Context) error {
	if !s.launch.Transparent {
		return nil
	}
	e, ok := s.egress.(Transparent)
	if !ok {
		return errors.New("internal error: the launch is transparent, and its egress isn't")
	}
	t := &s.transparency
	ctx, t.cancel = context.WithCancel(ctx)
	s.Process.background("names", func() error { return e.ServeNames(ctx, t.names) })
	s.Process.background("names over TCP", func() error { return e.ServeNamesTCP(ctx, t.namesTCP) })
	s.Process.background("connections", func() error { return e.ServeFlows(ctx, t.flows) })
	if t.flows6 != nil {
		s.Process.background("connections over IPv6", func() error { return e.ServeFlows(ctx, t.flows6) })
	}
	return nil
}

// route judges one connection for the engine.
func (s *launcher) route(_ context.Context, f notify.Flow) notify.Verdict {
	e, ok := s.egress.(Transparent)
	if !ok {
		return notify.Verdict{}
	}
	r := e.Route(f.To, f.Stream, f.Who)
	v := notify.Verdict{Refused: r.Refused, Started: r.Started}
	if r.Capture {
		v.To = flowsAddress
		if f.To.Addr().Is6() && s.transparency.flows6 != nil {
			v.To = flows6Address // a socket may be of IPv6 alone
		}
	}
	return v
}

// answer starts answering the second filter. If that ends before the run
// does, no connection can be made any more.
func (s *launcher) answer() {
	if s.engine != nil {
		s.Process.background("system calls", s.engine.Run)
	}
}

// background serves the command with one thing. If it ends before the run
// does, that is no hole, but worth a line.
func (p *Process) background(what string, serve func() error) {
	p.serving.Go(func() {
		err := serve()
		if err == nil {
			return
		}
		if p.o.Notice != nil {
			p.o.Notice(fmt.Sprintf("what answers the command's %s has ended: %v", what, err))
		}
		if p.o.Events != nil {
			p.o.Events.Emit(event.Event{
				Time: time.Now(), Run: p.o.Run, Kind: event.Network, Action: event.Noticed, Target: what, Reason: "service_ended",
			})
		}
	})
}
