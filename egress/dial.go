package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// dialTimeout bounds resolving and connecting together. Most programs give
// up after 30 s or sooner by themselves.
const dialTimeout = 30 * time.Second

// maxAddrs bounds the addresses of one name that are tried.
const maxAddrs = 16

// Dialer reaches what the Decider allows, by addresses that it has checked.
// It is safe for concurrent use.
type Dialer struct {
	Decider *Decider
	// Resolver looks names up; nil means the machine's own.
	Resolver Resolver
	// SelfAddrs says what addresses are this machine; nil means that they
	// are read from the system, anew whenever they change.
	SelfAddrs func() (HostAddrs, error)
	// Upstream is the parent proxy; nil for none.
	Upstream *Upstream
	// Connect opens a connection to an address that has been checked; nil
	// means TCP. It is never given a name.
	Connect func(ctx context.Context, addr netip.AddrPort) (net.Conn, error)
	// Timeout bounds one Dial; zero means 30 s.
	Timeout time.Duration
	// Budget bounds all that is sent; nil for no bound.
	Budget *Budget

	own ownAddrs
}

// Dial decides, resolves, checks and connects. The error is always an
// *[Error].
func (d *Dialer) Dial(ctx context.Context, t Target) (net.Conn, Verdict, error) {
	return d.dial(ctx, t, tunnelled)
}

func (d *Dialer) dial(ctx context.Context, t Target, scheme string) (net.Conn, Verdict, error) {
	v := d.Decider.Decide(t)
	if err := v.err(t); err != nil {
		return nil, v, err
	}
	account, berr := d.Budget.admit(t, v)
	if berr != nil {
		return nil, v, berr
	}
	ctx, cancel := context.WithTimeout(ctx, d.timeout())
	defer cancel()
	if parent := d.Upstream.choose(scheme, v, t.Port); parent != nil {
		conn, err := d.dialThrough(ctx, parent, v, t)
		if err != nil {
			return nil, v, err
		}
		return account.meter(conn), v, nil
	}
	checked, err := d.check(ctx, &v, t)
	if err != nil {
		return nil, v, err
	}
	if err := account.admitAddrs(checked); err != nil {
		return nil, v, err
	}
	conn, at, derr := d.race(ctx, checked, t.Port)
	if derr != nil {
		return nil, v, connectError(t, derr)
	}
	v.Addr = at
	return account.meter(conn), v, nil
}

func (d *Dialer) timeout() time.Duration {
	if d.Timeout > 0 {
		return d.Timeout
	}
	return dialTimeout
}

// check returns the addresses that may be dialled for an allowed target: all
// that its name has, or none. One that is refused refuses the name, since a
// server that answers with a good and a bad address is trying its luck; v
// then names the entry and the address that decided.
func (d *Dialer) check(ctx context.Context, v *Verdict, t Target) ([]netip.Addr, error) {
	list := []netip.Addr{v.Addr}
	if !v.Addr.IsValid() {
		var err *Error
		if list, err = d.resolve(ctx, t, v.Name); err != nil {
			return nil, err
		}
	}
	self, err := d.selfAddrs()
	if err != nil {
		return nil, &Error{Code: CodeSelfUnknown, Target: t.String(), Why: "cannot tell this machine's own addresses", Err: err}
	}
	for _, a := range list {
		if av := d.Decider.DecideAddr(a, t.Port, self); !av.Allowed {
			v.Addr = a
			return nil, av.err(t)
		}
	}
	return list[:min(len(list), maxAddrs)], nil
}

func (d *Dialer) selfAddrs() (HostAddrs, error) {
	if d.SelfAddrs != nil {
		return d.SelfAddrs()
	}
	return d.own.get()
}

func (d *Dialer) connect(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	if d.Connect != nil {
		return d.Connect(ctx, addr)
	}
	var nd net.Dialer
	return nd.DialContext(ctx, "tcp", addr.String())
}

func connectError(t Target, err error) *Error {
	e := &Error{Code: CodeConnect, Target: t.String(), Err: err}
	var netErr net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Code, e.Why = CodeConnRefused, "it refused the connection"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		e.Code, e.Why = CodeTimeout, "it didn't answer in time"
	default:
		e.Why = "cannot connect: " + rootCause(err)
	}
	return e
}

// rootCause is the innermost message: the outer ones repeat addresses.
func rootCause(err error) string {
	for next := errors.Unwrap(err); next != nil; next = errors.Unwrap(err) {
		err = next
	}
	return err.Error()
}
