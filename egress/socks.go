package egress

import (
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"time"
)

// The numbers of RFC 1928.
const (
	socks4Version = 0x04
	socks5Version = 0x05

	socksNoAuth       = 0x00 // section 3
	socksNoAcceptable = 0xff

	socksConnect = 0x01 // section 4

	socksIPv4 = 0x01 // section 5
	socksName = 0x03
	socksIPv6 = 0x04
)

// socksReply is the REP field of section 6.
type socksReply byte

const (
	socksOK            socksReply = 0x00
	socksFailure       socksReply = 0x01
	socksNotAllowed    socksReply = 0x02
	socksUnreachable   socksReply = 0x04
	socksConnRefused   socksReply = 0x05
	socksTimeout       socksReply = 0x06 // "TTL expired": what others use for a timeout
	socksNoCommand     socksReply = 0x07
	socksNoAddressType socksReply = 0x08
)

// socks4Refused is a SOCKS4 answer: "request rejected or failed".
var socks4Refused = []byte{0x00, 0x5b, 0, 0, 0, 0, 0, 0}

// serveSOCKS answers one SOCKS5 CONNECT. BIND and UDP ASSOCIATE are refused:
// nothing listens outside on behalf of the inside.
func (c *client) serveSOCKS() {
	if !c.socksMethod() {
		return
	}
	t, reply, err := c.socksRequest()
	if err != nil {
		return
	}
	if reply != socksOK {
		c.socksRefuse(reply)
		return
	}
	f := flow{target: t, via: viaSOCKS, began: time.Now()}
	server, v, derr := c.s.Dialer.Dial(c.ctx, t)
	if derr != nil {
		e := asError(t, derr)
		c.emitDenied(f, e)
		c.socksRefuse(socksCode(e))
		return
	}
	defer server.Close()
	if c.socksAnswer(socksOK) != nil {
		return
	}
	c.carry(f, v, server)
}

// socksMethod agrees on "no authentication" where who can connect to this port
// is inside already, and on a password where that isn't so.
func (c *client) socksMethod() bool {
	var b [2]byte
	if _, err := io.ReadFull(c.br, b[:]); err != nil {
		return false
	}
	methods := make([]byte, b[1])
	if _, err := io.ReadFull(c.br, methods); err != nil {
		return false
	}
	if method, ok := c.socksMethodOf(methods); ok {
		return c.write([]byte{socks5Version, method}) == nil && c.socksAdmits()
	}
	c.write([]byte{socks5Version, socksNoAcceptable})
	c.linger()
	return false
}

// socksRequest reads VER CMD RSV ATYP DST.ADDR DST.PORT. A reply other than
// socksOK is to be sent; an error means that there is nobody to send one to.
func (c *client) socksRequest() (Target, socksReply, error) {
	var b [4]byte
	if _, err := io.ReadFull(c.br, b[:]); err != nil {
		return Target{}, 0, fmt.Errorf("cannot read the request: %w", err)
	}
	if b[0] != socks5Version {
		return Target{}, socksFailure, nil
	}
	host, ok, err := c.socksHost(b[3])
	if err != nil {
		return Target{}, 0, err
	}
	if !ok {
		return Target{}, socksNoAddressType, nil
	}
	var port [2]byte
	if _, err := io.ReadFull(c.br, port[:]); err != nil {
		return Target{}, 0, fmt.Errorf("cannot read the port: %w", err)
	}
	if b[1] != socksConnect {
		return Target{}, socksNoCommand, nil
	}
	return Target{Host: host, Port: binary.BigEndian.Uint16(port[:])}, socksOK, nil
}

func (c *client) socksHost(kind byte) (host string, ok bool, err error) {
	size := map[byte]int{socksIPv4: 4, socksIPv6: 16}[kind]
	if kind == socksName {
		n, err := c.br.ReadByte()
		if err != nil {
			return "", false, fmt.Errorf("cannot read the name: %w", err)
		}
		size = int(n)
	} else if size == 0 {
		return "", false, nil
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(c.br, b); err != nil {
		return "", false, fmt.Errorf("cannot read the address: %w", err)
	}
	if kind == socksName {
		return string(b), true, nil
	}
	addr, _ := netip.AddrFromSlice(b) // 4 or 16 bytes: always valid
	return addr.String(), true, nil
}

func socksCode(e *Error) socksReply {
	switch {
	case e.Denied():
		return socksNotAllowed
	case e.Code == CodeConnRefused:
		return socksConnRefused
	case e.Code == CodeTimeout:
		return socksTimeout
	case e.Code == CodeNoSuchHost, e.Code == CodeResolve, e.Code == CodeConnect:
		return socksUnreachable
	}
	return socksFailure
}

// socksAnswer sends a reply. BND.ADDR is zero: the real one would tell what
// the host's network looks like, and no client of CONNECT needs it.
func (c *client) socksAnswer(r socksReply) error {
	return c.write([]byte{socks5Version, byte(r), 0, socksIPv4, 0, 0, 0, 0, 0, 0})
}

func (c *client) socksRefuse(r socksReply) {
	if c.socksAnswer(r) == nil {
		c.linger()
	}
}

// refuseSOCKS4 turns the old protocol away in its own words.
func (c *client) refuseSOCKS4() {
	if c.write(socks4Refused) == nil {
		c.linger()
	}
}

func (c *client) write(b []byte) error {
	c.conn.SetWriteDeadline(time.Now().Add(c.s.limits.Head))
	_, err := c.conn.Write(b)
	return err
}
