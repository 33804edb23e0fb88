package egress

import "net/netip"

// HostAddrs are this machine's own addresses and the gateways of its default
// routes: what a service that listens on every address is reached by.
type HostAddrs struct {
	Own      []netip.Addr
	Gateways []netip.Addr
}

// Class is the code that refuses an address, CodeAllowed for an ordinary one.
// An IPv6 address that embeds IPv4 is judged by what it embeds as well, since
// a translator on the way would deliver it there.
func Class(addr netip.Addr, self HostAddrs) string {
	addr = addr.WithZone("").Unmap()
	if code := plainClass(addr, self); code != CodeAllowed {
		return code
	}
	for _, inner := range embedded(addr) {
		if code := plainClass(inner, self); code != CodeAllowed {
			return code
		}
	}
	return CodeAllowed
}

func plainClass(addr netip.Addr, self HostAddrs) string {
	for _, m := range metadata {
		if addr == m {
			return CodeMetadata
		}
	}
	for _, r := range ranges {
		if r.prefix.Contains(addr) {
			return r.code
		}
	}
	if contains(self.Own, addr) {
		return CodeOwn
	}
	if contains(self.Gateways, addr) {
		return CodeGateway
	}
	return CodeAllowed
}

func contains(list []netip.Addr, addr netip.Addr) bool {
	for _, a := range list {
		if a.WithZone("").Unmap() == addr {
			return true
		}
	}
	return false
}

// metadata are the addresses where clouds hand credentials to whoever asks,
// wherever they lie: a more telling code than the range around them.
var metadata = addrs(
	"169.254.169.254", // AWS, GCP, Azure, OpenStack, DigitalOcean …
	"169.254.170.2",   // AWS ECS task credentials
	"169.254.170.23",  // AWS EKS pod identity
	"169.254.169.123", // AWS time, beside the metadata service
	"169.254.0.23",    // Tencent
	"100.100.100.200", // Alibaba
	"168.63.129.16",   // Azure WireServer: a public address that is the host's
	"192.0.0.192",     // Oracle
	"fd00:ec2::254",   // AWS
	"fd00:ec2::23",    // AWS EKS pod identity
	"fd20:ce::254",    // GCP
)

func addrs(texts ...string) []netip.Addr {
	list := make([]netip.Addr, len(texts))
	for i, t := range texts {
		list[i] = netip.MustParseAddr(t)
	}
	return list
}

type addressRange struct {
	prefix netip.Prefix
	code   string
}

// ranges are the IANA special-purpose registries' entries that mean "near",
// first hit wins. Documentation, benchmarking and 6to4 relay addresses are
// ordinary.
var ranges = []addressRange{
	{netip.MustParsePrefix("127.0.0.0/8"), CodeLoopback},
	{netip.MustParsePrefix("::1/128"), CodeLoopback},
	{netip.MustParsePrefix("0.0.0.0/8"), CodeUnspecified}, // RFC 1122: this host; Linux connects 0.0.0.0 to loopback
	{netip.MustParsePrefix("::/128"), CodeUnspecified},
	{netip.MustParsePrefix("169.254.0.0/16"), CodeLinkLocal},
	{netip.MustParsePrefix("fe80::/10"), CodeLinkLocal},
	{netip.MustParsePrefix("10.0.0.0/8"), CodePrivate},
	{netip.MustParsePrefix("172.16.0.0/12"), CodePrivate},
	{netip.MustParsePrefix("192.168.0.0/16"), CodePrivate},
	{netip.MustParsePrefix("fc00::/7"), CodePrivate},
	{netip.MustParsePrefix("fec0::/10"), CodePrivate},       // site-local, RFC 3879: still routed by old stacks
	{netip.MustParsePrefix("64:ff9b:1::/48"), CodePrivate},  // RFC 8215: an operator's own translation, embedding unknown
	{netip.MustParsePrefix("100.64.0.0/10"), CodeShared},    // RFC 6598
	{netip.MustParsePrefix("224.0.0.0/4"), CodeMulticast},   //
	{netip.MustParsePrefix("ff00::/8"), CodeMulticast},      //
	{netip.MustParsePrefix("192.0.0.0/24"), CodeReserved},   // RFC 6890: DS-Lite, NAT64 discovery
	{netip.MustParsePrefix("240.0.0.0/4"), CodeReserved},    // with 255.255.255.255
	{netip.MustParsePrefix("100::/64"), CodeReserved},       // RFC 6666: discard
	{netip.MustParsePrefix("::ffff:0:0/96"), CodeReserved},  // mapped: Unmap left none, so this can't be hit
	{netip.MustParsePrefix("5f00::/16"), CodeReserved},      // RFC 9602: segment routing
	{netip.MustParsePrefix("2001:2::/48"), CodeReserved},    // RFC 5180: benchmarking in labs only
	{netip.MustParsePrefix("2001:10::/28"), CodeReserved},   // RFC 4843: ORCHID, no locator
	{netip.MustParsePrefix("2001:20::/28"), CodeReserved},   // RFC 7343: ORCHIDv2
	{netip.MustParsePrefix("2001:1::1/128"), CodeReserved},  // RFC 7723: port control protocol anycast: a gateway
	{netip.MustParsePrefix("2001:1::2/128"), CodeReserved},  // RFC 8155: TURN anycast
	{netip.MustParsePrefix("192.88.99.2/32"), CodeReserved}, // RFC 6751: 6a44 relay, inside a provider's network
}

var (
	compatible = netip.MustParsePrefix("::/96")           // RFC 4291 2.5.5.1
	translated = netip.MustParsePrefix("::ffff:0:0:0/96") // RFC 2765, IPv4-translated
	nat64      = netip.MustParsePrefix("64:ff9b::/96")    // RFC 6052
	sixToFour  = netip.MustParsePrefix("2002::/16")       // RFC 3056
	teredo     = netip.MustParsePrefix("2001::/32")       // RFC 4380
	isatapMask = [4]byte{0x02 /* the u bit */, 0, 0, 0}   // RFC 5214 6.1: 0000:5efe or 0200:5efe
	isatapID   = [4]byte{0x00, 0x00, 0x5e, 0xfe}          //
)

// embedded lists the IPv4 addresses that an IPv6 address holds. An address
// can match by more than one rule (any /64 may carry an ISATAP identifier).
func embedded(addr netip.Addr) []netip.Addr {
	if !addr.Is6() {
		return nil
	}
	b := addr.As16()
	var list []netip.Addr
	if compatible.Contains(addr) || translated.Contains(addr) || nat64.Contains(addr) || isISATAP(b) {
		list = append(list, v4(b[12:16]))
	}
	if sixToFour.Contains(addr) {
		list = append(list, v4(b[2:6]))
	}
	if teredo.Contains(addr) {
		// The server, then the client, whose bits are inverted.
		list = append(list, v4(b[4:8]), v4([]byte{^b[12], ^b[13], ^b[14], ^b[15]}))
	}
	return list
}

func isISATAP(b [16]byte) bool {
	return [4]byte{b[8] &^ isatapMask[0], b[9], b[10], b[11]} == isatapID
}

func v4(b []byte) netip.Addr { return netip.AddrFrom4([4]byte(b)) }
