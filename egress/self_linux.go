package egress

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"syscall"
)

// The layout of struct rtnexthop, rtnetlink(7): length (2), flags, hops,
// interface (4), then attributes.
const sizeofNexthop = 8

// rtaVia is RTA_VIA, a gateway of another family than the route's (IPv4 by an
// IPv6 router), linux/rtnetlink.h; package syscall doesn't know it.
const rtaVia = 18

// gateways dumps the routes over rtnetlink(7) rather than reading
// /proc/net/route, which shows the main table alone.
func gateways() ([]netip.Addr, error) {
	data, err := syscall.NetlinkRIB(syscall.RTM_GETROUTE, syscall.AF_UNSPEC)
	if err != nil {
		return nil, fmt.Errorf("cannot dump the routes: %w", err)
	}
	msgs, err := syscall.ParseNetlinkMessage(data)
	if err != nil {
		return nil, fmt.Errorf("cannot parse the routes: %w", err)
	}
	var list []netip.Addr
	for _, m := range msgs {
		// struct rtmsg: family, dst_len, …; a default route's dst_len is 0, or
		// 1 where a VPN overrides it by two halves.
		if m.Header.Type != syscall.RTM_NEWROUTE || len(m.Data) < syscall.SizeofRtMsg || m.Data[1] > 1 {
			continue
		}
		attrs, err := syscall.ParseNetlinkRouteAttr(&m)
		if err != nil {
			return nil, fmt.Errorf("cannot parse a default route: %w", err)
		}
		for _, a := range attrs {
			list = append(list, attrGateways(int(a.Attr.Type), a.Value)...)
		}
	}
	return list, nil
}

func attrGateways(kind int, value []byte) []netip.Addr {
	switch kind {
	case syscall.RTA_GATEWAY:
		if addr, ok := netip.AddrFromSlice(value); ok {
			return []netip.Addr{addr.Unmap()}
		}
	case rtaVia: // struct rtvia: the family (2), then the address
		if len(value) > 2 {
			return attrGateways(syscall.RTA_GATEWAY, value[2:])
		}
	case syscall.RTA_MULTIPATH:
		return nexthops(value)
	}
	return nil
}

func nexthops(b []byte) []netip.Addr {
	var list []netip.Addr
	for len(b) >= sizeofNexthop {
		n := int(binary.NativeEndian.Uint16(b))
		if n < sizeofNexthop || n > len(b) {
			return list
		}
		list = append(list, nested(b[sizeofNexthop:n])...)
		b = b[min(align4(n), len(b)):]
	}
	return list
}

func nested(b []byte) []netip.Addr {
	var list []netip.Addr
	for len(b) >= syscall.SizeofRtAttr {
		n := int(binary.NativeEndian.Uint16(b))
		if n < syscall.SizeofRtAttr || n > len(b) {
			return list
		}
		list = append(list, attrGateways(int(binary.NativeEndian.Uint16(b[2:])), b[syscall.SizeofRtAttr:n])...)
		b = b[min(align4(n), len(b)):]
	}
	return list
}

func align4(n int) int { return (n + 3) &^ 3 }
