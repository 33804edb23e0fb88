package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// Resolver looks a name up. [net.Resolver] is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// resolve looks a normalised name up once, in absolute form, so that the
// resolver's search domains (resolv.conf(5)) can't turn "intranet" into
// "intranet.corp.example".
func (d *Dialer) resolve(ctx context.Context, t Target, name string) ([]netip.Addr, *Error) {
	var r Resolver = systemResolver{}
	if d.Resolver != nil {
		r = d.Resolver
	}
	list, err := r.LookupNetIP(ctx, "ip", name+".")
	if err != nil {
		return nil, resolveError(t, err)
	}
	if len(list) == 0 {
		return nil, &Error{Code: CodeNoSuchHost, Target: t.String(), Why: "its name has no address"}
	}
	return unique(list), nil
}

// systemResolver is the machine's resolver as Go speaks it: no module of
// nsswitch.conf(5) sees, or rewrites, the name.
type systemResolver struct{}

var errNoDNS = errors.New("only the hosts file is asked")

// LookupNetIP takes absolute names. Go finds those in the hosts file where
// they have more than one label; the file's own "localhost" it only finds
// without the dot, and would search for then. So such a name is first asked
// for with a name service that can't be reached.
func (systemResolver) LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error) {
	if name := strings.TrimSuffix(host, "."); !strings.Contains(name, ".") {
		files := net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) { return nil, errNoDNS }}
		if list, err := files.LookupNetIP(ctx, network, name); err == nil {
			return list, nil
		}
	}
	dns := net.Resolver{PreferGo: true}
	return dns.LookupNetIP(ctx, network, host)
}

func resolveError(t Target, err error) *Error {
	e := &Error{Code: CodeResolve, Target: t.String(), Err: err}
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		e.Code, e.Why = CodeNoSuchHost, "the name doesn't exist"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &dns) && dns.IsTimeout:
		e.Code, e.Why = CodeTimeout, "the name servers didn't answer in time"
	case dns != nil:
		e.Why = "cannot look the name up: " + dns.Err
	default:
		e.Why = fmt.Sprintf("cannot look the name up: %v", err) // the cause is kept in Err
	}
	return e
}

// unique drops zones, unmaps and takes out repetitions, keeping the
// resolver's order (RFC 6724).
func unique(list []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range list {
		if a = a.WithZone("").Unmap(); a.IsValid() && !contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}
