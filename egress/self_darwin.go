package egress

import (
	"fmt"
	"net/netip"
	"syscall"

	"golang.org/x/net/route"
)

// gateways reads the routing table of macOS.
func gateways() ([]netip.Addr, error) {
	rib, err := route.FetchRIB(syscall.AF_UNSPEC, route.RIBTypeRoute, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot read the routes: %w", err)
	}
	msgs, err := route.ParseRIB(route.RIBTypeRoute, rib)
	if err != nil {
		return nil, fmt.Errorf("cannot parse the routes: %w", err)
	}
	var list []netip.Addr
	for _, m := range msgs {
		r, ok := m.(*route.RouteMessage)
		if !ok || len(r.Addrs) <= syscall.RTAX_GATEWAY || !isDefault(r.Addrs[syscall.RTAX_DST]) {
			continue
		}
		switch a := r.Addrs[syscall.RTAX_GATEWAY].(type) {
		case *route.Inet4Addr:
			list = append(list, netip.AddrFrom4(a.IP))
		case *route.Inet6Addr:
			list = append(list, netip.AddrFrom16(a.IP))
		}
	}
	return list, nil
}

// isDefault reports a destination of zero; a host or network route to
// 0.0.0.0 would merely refuse one address more.
func isDefault(a route.Addr) bool {
	switch a := a.(type) {
	case *route.Inet4Addr:
		return a.IP == [4]byte{}
	case *route.Inet6Addr:
		return a.IP == [16]byte{}
	}
	return false
}
