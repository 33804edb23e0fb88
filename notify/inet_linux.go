package notify

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// The layouts of struct sockaddr_in and sockaddr_in6, ip(7), ipv6(7).
const (
	inetSize  = 16
	inet6Size = 24 // without sin6_scope_id; the kernel takes that (SIN6_LEN_RFC2133)
)

// destination reads an address as the socket's family has it. ok is false for
// what the kernel will refuse, or take for something else than a connection
// (AF_UNSPEC ends one).
func (s *socket) destination(sa []byte) (to netip.AddrPort, ok bool) {
	switch f := family(sa); {
	case f == unix.AF_INET && len(sa) >= inetSize:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(sa[4:8])), binary.BigEndian.Uint16(sa[2:])), true
	case f == unix.AF_INET6 && len(sa) >= inet6Size && s.domain == unix.AF_INET6:
		addr := netip.AddrFrom16([16]byte(sa[8:24])).Unmap()
		return netip.AddrPortFrom(addr, binary.BigEndian.Uint16(sa[2:])), true
	}
	return netip.AddrPort{}, false
}

// inetAddress is an address in the form that the socket's family takes.
func (s *socket) inetAddress(to netip.AddrPort) []byte {
	if s.domain == unix.AF_INET {
		sa := binary.NativeEndian.AppendUint16(nil, unix.AF_INET)
		sa = binary.BigEndian.AppendUint16(sa, to.Port())
		a := to.Addr().As4()
		return append(append(sa, a[:]...), make([]byte, 8)...)
	}
	sa := binary.NativeEndian.AppendUint16(nil, unix.AF_INET6)
	sa = binary.BigEndian.AppendUint16(sa, to.Port())
	a := to.Addr().As16() // an IPv4 address in its mapped form
	sa = append(append(sa, 0, 0, 0, 0), a[:]...)
	return append(sa, 0, 0, 0, 0)
}

// local is the socket's own address.
func (s *socket) local() (netip.AddrPort, bool) {
	sa, err := unix.Getsockname(s.fd)
	if err != nil {
		return netip.AddrPort{}, false
	}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)), true
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr).Unmap(), uint16(sa.Port)), true
	}
	return netip.AddrPort{}, false
}

// inetSocket judges a connection of an INET socket, and answers the address
// to connect to and whom to tell.
func (e *Engine) inetSocket(c *caller, s *socket, id uint64, sa []byte) (target []byte, v Verdict) {
	to, ok := s.destination(sa)
	if !ok || e.o.Inet == nil {
		return sa, Verdict{}
	}
	v = e.o.Inet(e.ctx, Flow{To: to, Stream: s.kind == unix.SOCK_STREAM, Who: func() (int, string) {
		pid, program := c.who()
		if !isWaiting(e.fd, id) {
			return 0, ""
		}
		return pid, program
	}})
	if v.To.IsValid() {
		return s.inetAddress(v.To), v
	}
	return sa, v
}
