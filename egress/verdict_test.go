package egress_test

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"pinfold/egress"
	"pinfold/event"
	"pinfold/policy"
)

// testCase is a target with the verdict that every front end must give.
type testCase struct {
	host string
	port uint16
	want string
}

var labSelf = egress.HostAddrs{
	Own:      []netip.Addr{netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("2001:db8:1::1")},
	Gateways: []netip.Addr{netip.MustParseAddr("203.0.113.254")},
}

// special are addresses with the class that a name which has them is refused
// for.
var special = map[string]string{
	"127.0.0.1": egress.CodeLoopback, "127.255.255.255": egress.CodeLoopback, "127.0.0.53": egress.CodeLoopback,
	"::1": egress.CodeLoopback, "::ffff:127.0.0.1": egress.CodeLoopback, "::127.0.0.1": egress.CodeLoopback,
	"64:ff9b::7f00:1": egress.CodeLoopback, "2002:7f00:1::": egress.CodeLoopback, "2002:7f00:1::5": egress.CodeLoopback,
	"2001:0:7f00:1::": egress.CodeLoopback, "2001:0:cb00:7109:0:0:80ff:fffe": egress.CodeLoopback,
	"2001:db8::5efe:7f00:1": egress.CodeLoopback, "2001:db8::200:5efe:127.0.0.1": egress.CodeLoopback,
	"::ffff:0:127.0.0.1": egress.CodeLoopback,
	"0.0.0.0":            egress.CodeUnspecified, "0.1.2.3": egress.CodeUnspecified, "::": egress.CodeUnspecified,
	"::ffff:0.0.0.0": egress.CodeUnspecified, "64:ff9b::": egress.CodeUnspecified, "2002::1": egress.CodeUnspecified,
	"169.254.0.1": egress.CodeLinkLocal, "169.254.255.255": egress.CodeLinkLocal, "fe80::1": egress.CodeLinkLocal,
	"febf:ffff::1": egress.CodeLinkLocal, "::ffff:169.254.1.1": egress.CodeLinkLocal, "64:ff9b::a9fe:101": egress.CodeLinkLocal,
	"10.0.0.1": egress.CodePrivate, "10.255.255.255": egress.CodePrivate, "172.16.0.1": egress.CodePrivate,
	"172.31.255.255": egress.CodePrivate, "192.168.0.1": egress.CodePrivate, "192.168.255.255": egress.CodePrivate,
	"fc00::1": egress.CodePrivate, "fdff::1": egress.CodePrivate, "fec0::1": egress.CodePrivate,
	"::ffff:10.0.0.1": egress.CodePrivate, "64:ff9b::a00:1": egress.CodePrivate, "64:ff9b:1::1": egress.CodePrivate,
	"64:ff9b:1:ffff::cb00:7109": egress.CodePrivate, "2002:c0a8:101::1": egress.CodePrivate,
	"2002:a00:1:0:0:5efe:203.0.113.9": egress.CodePrivate, "2001:0:a00:1::": egress.CodePrivate,
	"100.64.0.1": egress.CodeShared, "100.127.255.255": egress.CodeShared, "::ffff:100.64.0.1": egress.CodeShared,
	"224.0.0.1": egress.CodeMulticast, "239.255.255.255": egress.CodeMulticast, "ff02::1": egress.CodeMulticast,
	"ff0e::1": egress.CodeMulticast, "2002:e000:1::1": egress.CodeMulticast,
	"240.0.0.1": egress.CodeReserved, "255.255.255.255": egress.CodeReserved, "192.0.0.1": egress.CodeReserved,
	"100::1": egress.CodeReserved, "2001:10::1": egress.CodeReserved, "::ffff:255.255.255.255": egress.CodeReserved,
	"169.254.169.254": egress.CodeMetadata, "169.254.170.2": egress.CodeMetadata, "100.100.100.200": egress.CodeMetadata,
	"168.63.129.16": egress.CodeMetadata, "192.0.0.192": egress.CodeMetadata, "fd00:ec2::254": egress.CodeMetadata,
	"::ffff:169.254.169.254": egress.CodeMetadata, "64:ff9b::a9fe:a9fe": egress.CodeMetadata, "2002:a9fe:a9fe::": egress.CodeMetadata,
	"203.0.113.1": egress.CodeOwn, "2001:db8:1::1": egress.CodeOwn, "::ffff:203.0.113.1": egress.CodeOwn,
	"64:ff9b::cb00:7101": egress.CodeOwn, "2002:cb00:7101::": egress.CodeOwn,
	"203.0.113.254": egress.CodeGateway, "64:ff9b::203.0.113.254": egress.CodeGateway,
}

// ordinary are addresses near the special ones that a name may have.
var ordinary = []string{
	"1.0.0.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.1", "168.63.129.15",
	"169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0", "192.0.1.1", "192.0.2.1", "192.167.255.255", "192.169.0.0",
	"198.18.0.1", "198.51.100.7", "203.0.113.9", "223.255.255.255", "2001:db8::1", "2606:4700::1111", "64:ff9b::cb00:7109",
	"2002:cb00:7109::1", "2001:db8::5efe:cb00:7109", "::ffff:203.0.113.9",
}

// hostCases are spellings of what the program asks for.
var hostCases = []testCase{
	{"allowed.example", 80, "allowed"},
	{"allowed.example", 443, "allowed"},
	{"allowed.example", 65535, "allowed"},
	{"ALLOWED.Example", 80, "allowed"},
	{"allowed.example.", 80, "allowed"},
	{"Allowed.Example.", 443, "allowed"},
	{"allowed.example..", 80, "bad_host"},
	{".allowed.example", 80, "bad_host"},
	{"allowed..example", 80, "bad_host"},
	{"sub.allowed.example", 80, "not_listed"},
	{"evilallowed.example", 80, "not_listed"},
	{"allowed.example.evil", 80, "not_listed"},
	{"allowed", 80, "not_listed"},
	{"example", 80, "not_listed"},
	{"allowed-example", 80, "not_listed"},
	{"pinned.example", 8080, "allowed"},
	{"pinned.example", 80, "not_listed"},
	{"pinned.example", 8081, "not_listed"},
	{"PINNED.example.", 8080, "allowed"},
	{"a.wild.example", 80, "allowed"},
	{"a.b.wild.example", 80, "allowed"},
	{"A.B.WILD.EXAMPLE", 80, "allowed"},
	{"wild.example", 80, "not_listed"},
	{"xwild.example", 80, "not_listed"},
	{"x-wild.example", 80, "not_listed"},
	{"bad.wild.example", 80, "denied"},
	{"BAD.wild.example.", 80, "denied"},
	{"sub.bad.wild.example", 80, "allowed"},
	{"a.badzone.wild.example", 80, "denied"},
	{"badzone.wild.example", 80, "allowed"},
	{"mail.wild.example", 25, "denied"},
	{"mail.wild.example", 80, "allowed"},
	{"xn--bcher-kva.example", 80, "allowed"},
	{"bücher.example", 80, "allowed"},
	{"BÜCHER.example", 443, "allowed"},
	{"xn--bcher-kva.example.", 80, "allowed"},
	{"xn--bcher-kvb.example", 80, "bad_host"},
	{"xn--mnchen-3ya.example", 80, "not_listed"},
	{"alloweḋ.example", 80, "not_listed"},
	{"xn--a.example", 80, "bad_host"},
	{"r3---sn-x.wild.example", 80, "allowed"},
	{"_dmarc.wild.example", 80, "allowed"},
	{"-a.wild.example", 80, "bad_host"},
	{"a-.wild.example", 80, "bad_host"},
	{strings.Repeat("a", 63) + ".wild.example", 80, "allowed"},
	{strings.Repeat("a", 64) + ".wild.example", 80, "bad_host"},
	{strings.Repeat("a.", 119) + "wild.example", 80, "allowed"},
	{strings.Repeat("a.", 121) + "wild.example", 80, "bad_host"},
	{"203.0.113.7", 80, "allowed"},
	{"203.0.113.7", 443, "allowed"},
	{"203.0.113.8", 80, "not_listed"},
	{"0xcb007107", 80, "allowed"},
	{"3405803783", 80, "allowed"},
	{"0313.0.0161.7", 80, "allowed"},
	{"203.0.28935", 80, "allowed"},
	{"203.0.113.7.", 80, "allowed"},
	{"[::ffff:203.0.113.7]", 80, "allowed"},
	{"[::ffff:cb00:7107]", 80, "allowed"},
	{"198.51.100.9", 5432, "allowed"},
	{"198.51.100.9", 5433, "not_listed"},
	{"198.51.101.9", 5432, "not_listed"},
	{"198.51.100.66", 5432, "denied"},
	{"[64:ff9b::198.51.100.66]", 5432, "denied"},
	{"[2001:db8:7::7]", 443, "allowed"},
	{"[2001:DB8:7::7]", 443, "allowed"},
	{"[2001:db8:7:0:0:0:0:7]", 443, "allowed"},
	{"[2001:db8:7::7]", 80, "not_listed"},
	{"[2001:db8:7::8]", 443, "not_listed"},
	{"[fe80::1%25eth0]", 80, "bad_host"},
	{"[2001:db8:7::7%25eth0]", 443, "bad_host"},
	{"127.0.0.1", 8099, "allowed"},
	{"127.0.0.1", 8098, "not_listed"},
	{"127.1", 8099, "allowed"},
	{"2130706433", 8099, "allowed"},
	{"0x7f.1", 8099, "allowed"},
	{"0177.0.0.1", 8099, "allowed"},
	{"[::ffff:127.0.0.1]", 8099, "allowed"},
	{"[::127.0.0.1]", 8099, "not_listed"},
	{"[64:ff9b::7f00:1]", 8099, "not_listed"},
	{"127.0.0.1", 80, "not_listed"},
	{"127.1", 80, "not_listed"},
	{"0", 80, "not_listed"},
	{"0.0.0.0", 80, "not_listed"},
	{"0x7f000001", 80, "not_listed"},
	{"017700000001", 80, "not_listed"},
	{"[::1]", 80, "not_listed"},
	{"[::]", 80, "not_listed"},
	{"localhost", 80, "not_listed"},
	{"localhost.", 80, "not_listed"},
	{"LOCALHOST", 80, "not_listed"},
	{"foo.localhost", 80, "not_listed"},
	{"1.2.3.4.5", 80, "bad_host"},
	{"256.1.1.1", 80, "bad_host"},
	{"1.2.3.256", 80, "bad_host"},
	{"08.1.1.1", 80, "bad_host"},
	{"4294967296", 80, "bad_host"},
	{"0x100000000", 80, "bad_host"},
	{"a.1", 80, "bad_host"},
	{"1.2.3.4x", 80, "not_listed"},
	{"169.254.169.254", 80, "not_listed"},
	{"2852039166", 80, "not_listed"},
	{"metadata.google.internal", 80, "not_listed"},
	{"denied.example", 80, "not_listed"},
	{"gist.example", 80, "denied"},
	{"gist.example", 443, "denied"},
	{"missing.allowed.example", 80, "not_listed"},
	{"missing.wild.example", 80, "no_such_host"},
	{"broken.wild.example", 80, "resolve_failed"},
	{"slow.wild.example", 80, "timeout"},
	{"empty.wild.example", 80, "no_such_host"},
	{"deniedaddr.wild.example", 80, "denied_address"},
	{"mixed.wild.example", 80, "loopback_address"},
	{"lifted.wild.example", 8099, "allowed"},
	{"lifted.wild.example", 8098, "loopback_address"},
	{"tenlisted.wild.example", 5432, "allowed"},
	{"tenlisted.wild.example", 5433, "private_address"},
	{"allowed.example", 0, "bad_port"},
	{"denied.example", 0, "bad_port"},
	{"127.0.0.1", 0, "bad_port"},
}

func verdictLab(t *testing.T) (*lab, []testCase) {
	l := newLab(t, labConfig{
		allow: []string{
			"allowed.example", "pinned.example:8080", "*.wild.example", "bücher.example", "203.0.113.7", "198.51.100.0/24:5432",
			"[2001:db8:7::7]:443", "127.0.0.1:8099", "10.1.0.0/16:5432", "gist.example", "64:ff9b::/96:5432",
		},
		deny: []string{"gist.example", "bad.wild.example", "*.badzone.wild.example", "mail.wild.example:25", "198.51.100.66", "192.0.2.66"},
		self: labSelf,
	})
	cases := append([]testCase(nil), hostCases...)
	for _, c := range hostCases {
		if c.want == egress.CodeAllowed {
			name := strings.ToLower(strings.TrimSuffix(c.host, "."))
			l.names.set(strings.ReplaceAll(name, "ü", "ü"), "203.0.113.9")
		}
	}
	l.names.set("xn--bcher-kva.example", "203.0.113.9")
	l.names.fail("broken.wild.example", &net.DNSError{Err: "server misbehaving", Name: "broken.wild.example"})
	l.names.fail("slow.wild.example", &net.DNSError{Err: "i/o timeout", Name: "slow.wild.example", IsTimeout: true})
	l.names.set("empty.wild.example", "")
	l.names.set("deniedaddr.wild.example", "192.0.2.66")
	l.names.set("mixed.wild.example", "203.0.113.9 127.0.0.1")
	l.names.set("lifted.wild.example", "127.0.0.1")
	l.names.set("tenlisted.wild.example", "10.1.2.3")
	i := 0
	for addr, class := range special {
		i++
		alone, mixed := fmt.Sprintf("s%d.wild.example", i), fmt.Sprintf("m%d.wild.example", i)
		l.names.set(alone, addr)
		l.names.set(mixed, "203.0.113.9 2001:db8::9 "+addr)
		cases = append(cases, testCase{alone, 80, class}, testCase{mixed, 443, class})
		if a := netip.MustParseAddr(addr); a.Is6() {
			cases = append(cases, testCase{"[" + addr + "]", 80, egress.CodeNotListed})
		} else {
			cases = append(cases, testCase{addr, 80, egress.CodeNotListed})
		}
	}
	for i, addr := range ordinary {
		name := fmt.Sprintf("o%d.wild.example", i)
		l.names.set(name, addr)
		cases = append(cases, testCase{name, 80, egress.CodeAllowed}, testCase{strings.ToUpper(name) + ".", 443, egress.CodeAllowed})
	}
	return l, cases
}

// TestSameVerdict asks for each target by HTTP, by CONNECT and by SOCKS5 (by
// name, and by address where it is one), and wants one verdict, but for plain
// requests where it has to be TLS.
func TestSameVerdict(t *testing.T) {
	t.Parallel()
	l, cases := verdictLab(t)
	everything := rawServer(t, func(c net.Conn) {
		c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"))
		c.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, c)
	})
	for p := range 65536 {
		l.net.route(fmt.Sprintf(":%d", p), everything)
	}
	if len(cases) < 300 {
		t.Errorf("there are %d cases, want several hundred", len(cases))
	}
	for _, c := range cases {
		t.Run(fmt.Sprintf("%s:%d", clip(c.host), c.port), func(t *testing.T) {
			for front, ask := range fronts {
				if front == "http" && c.want == egress.CodeAllowed && c.port == 25 {
					continue
				}
				c := c.by(front)
				before, dialed, asked := len(l.events.all()), len(l.net.dials()), len(l.names.lookups())
				got := ask(l, c)
				if got == "" {
					continue
				}
				checkVerdict(t, l, front, c, got, before)
				if c.want != egress.CodeAllowed && len(l.net.dials()) != dialed {
					t.Errorf("%s: refused, yet dialled %v", front, l.net.dials()[dialed:])
				}
				if refusedEarly(c.want) && len(l.names.lookups()) != asked {
					t.Errorf("%s: refused, yet looked up %v", front, l.names.lookups()[asked:])
				}
			}
		})
	}
}

// by is the case by one of the ways: what would go up in plain, where the
// others' first words are looked at, is refused at once.
func (c testCase) by(front string) testCase {
	_, err := netip.ParseAddr(strings.Trim(c.host, "[]"))
	if front == "http" && c.port == 443 && err != nil && !refusedEarly(c.want) {
		c.want = egress.CodeNotTLS
	}
	return c
}

func refusedEarly(code string) bool {
	switch code {
	case egress.CodeNotTLS, egress.CodeNotListed, egress.CodeDenied, egress.CodeBadHost, egress.CodeBadPort:
		return true
	}
	return false
}

// checkVerdict compares what the client saw with the table, and wants exactly
// one event that says the same.
func checkVerdict(t *testing.T, l *lab, front string, c testCase, got string, before int) {
	t.Helper()
	if front == "http" && got == egress.CodeBadRequest && c.want == egress.CodeBadHost {
		return // no URL holds it: refused before it is a target
	}
	if strings.HasPrefix(front, "socks") {
		if want := socksWant(c.want); got != want {
			t.Errorf("%s: got reply %s, want %s", front, got, want)
		}
	} else if got != c.want {
		t.Errorf("%s: got %s, want %s", front, got, c.want)
	}
	l.events.wait(t, func(event.Event) bool { return len(l.events.list) > before })
	list := l.events.all()[before:]
	if ev := list[0]; len(list) != 1 || ev.Reason != c.want {
		t.Errorf("%s: got events %+v, want one with reason %s", front, list, c.want)
	}
	if ev := list[0]; ev.Kind != event.Network || ev.Target == "" || (ev.Action == event.Allowed) != (c.want == egress.CodeAllowed) {
		t.Errorf("%s: got event %+v", front, ev)
	}
}

func socksWant(code string) string {
	switch code {
	case egress.CodeAllowed:
		return "0"
	case egress.CodeNoSuchHost, egress.CodeResolve:
		return "4"
	case egress.CodeTimeout:
		return "6"
	}
	return "2"
}

// fronts ask for a target; "" means that the protocol can't express it.
var fronts = map[string]func(*lab, testCase) string{
	"http": func(l *lab, c testCase) string {
		return code(l.send(fmt.Sprintf("GET http://%s:%d/ HTTP/1.1\r\nHost: %s:%d\r\nConnection: close\r\n\r\n", c.host, c.port, hostField(c.host), c.port)))
	},
	"connect": func(l *lab, c testCase) string {
		host := strings.ReplaceAll(c.host, "%25", "%")
		return code(l.send(fmt.Sprintf("CONNECT %s:%d HTTP/1.1\r\nHost: %s:%d\r\n\r\n", host, c.port, hostField(host), c.port)))
	},
	"socks-name": func(l *lab, c testCase) string {
		host := strings.ReplaceAll(c.host, "%25", "%")
		if len(host) > 255 {
			return ""
		}
		return fmt.Sprint(l.socks(3, []byte(host), c.port))
	},
	"socks-address": func(l *lab, c testCase) string {
		addr, err := netip.ParseAddr(strings.ReplaceAll(strings.Trim(c.host, "[]"), "%25", "%"))
		if err != nil || addr.Zone() != "" {
			return ""
		}
		kind := byte(4)
		if addr.Is4() {
			kind = 1
		}
		return fmt.Sprint(l.socks(kind, addr.AsSlice(), c.port))
	},
}

func hostField(host string) string { return host }

// code reads the reason of an answer.
func code(answer string) string {
	if strings.HasPrefix(answer, "HTTP/1.1 200") {
		return egress.CodeAllowed
	}
	for line := range strings.SplitSeq(answer, "\r\n") {
		if v, ok := strings.CutPrefix(line, egress.ReasonHeader+": "); ok {
			return v
		}
	}
	return "no reason in: " + clip(answer)
}

// TestDecideAddrProperties holds for every address: what is refused is lifted
// by listing exactly it, and by nothing wider than what holds it.
func TestListingLifts(t *testing.T) {
	t.Parallel()
	for addr, class := range special {
		a := netip.MustParseAddr(addr).Unmap()
		entry := netip.AddrPortFrom(a, 443).String()
		l := egress.NewDecider(policyOf(t, []string{entry}, nil))
		if v := l.DecideAddr(a, 443, labSelf); !v.Allowed {
			t.Errorf("%s is refused (%s) though %q lists it", addr, v.Code, entry)
		}
		if v := l.DecideAddr(a, 80, labSelf); v.Allowed || v.Code != class {
			t.Errorf("%s:80: got %s, want %s: another port is listed", addr, v.Code, class)
		}
		both := egress.NewDecider(policyOf(t, []string{entry}, []string{entry}))
		if v := both.DecideAddr(a, 443, labSelf); v.Allowed {
			t.Errorf("%s is allowed though network.deny lists it", addr)
		}
	}
}

func policyOf(t *testing.T, allow, deny []string) policy.Network {
	t.Helper()
	return policy.Network{Allow: patterns(t, allow), Deny: denyPatterns(t, deny)}
}
