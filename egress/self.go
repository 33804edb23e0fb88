package egress

import (
	"fmt"
	"net"
	"net/netip"
)

// SystemAddrs reads this machine's own addresses, on every interface, and the
// gateways of its default routes, in every routing table.
func SystemAddrs() (HostAddrs, error) {
	own, err := net.InterfaceAddrs()
	if err != nil {
		return HostAddrs{}, fmt.Errorf("cannot list this machine's addresses: %w", err)
	}
	var h HostAddrs
	for _, a := range own {
		// Linux and macOS both give *net.IPNet; anything else would be new.
		n, ok := a.(*net.IPNet)
		if !ok {
			return HostAddrs{}, fmt.Errorf("cannot read the interface address %q: it is a %T", a, a)
		}
		addr, ok := netip.AddrFromSlice(n.IP)
		if !ok {
			return HostAddrs{}, fmt.Errorf("cannot read the interface address %q", a)
		}
		h.Own = append(h.Own, addr.Unmap())
	}
	if h.Gateways, err = gateways(); err != nil {
		return HostAddrs{}, fmt.Errorf("cannot list this machine's default routes: %w", err)
	}
	return h, nil
}
