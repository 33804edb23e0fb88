package egress_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"pinfold/egress"
	"pinfold/event"
	"pinfold/policy"
)

// captured is a lab whose clients know of no proxy: what the engine of system
// calls does, the test does.
type captured struct {
	*lab
	tr    *egress.Transparent
	names *net.UDPConn // to the name service
	tcp   string       // the same over TCP
	flows string
}

func newCaptured(t testing.TB, l *lab) *captured {
	t.Helper()
	c := &captured{lab: l, tr: egress.NewTransparent(l.server)}
	ctx, cancel := context.WithCancel(context.Background())
	packets, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tcp, flows := listen(t), listen(t)
	done := make(chan error, 3)
	go func() { done <- c.tr.ServeNames(ctx, packets) }()
	go func() { done <- c.tr.ServeNamesTCP(ctx, tcp) }()
	go func() { done <- c.tr.ServeFlows(ctx, flows) }()
	conn, err := net.Dial("udp", packets.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	c.names, c.tcp, c.flows = conn.(*net.UDPConn), tcp.Addr().String(), flows.Addr().String()
	t.Cleanup(func() {
		conn.Close()
		cancel()
		c.tr.Close()
		for range 3 {
			if err := <-done; err != nil {
				t.Errorf("a service ended with %v", err)
			}
		}
	})
	return c
}

func question(t testing.TB, name string, kind dnsmessage.Type) []byte {
	t.Helper()
	n, err := dnsmessage.NewName(strings.TrimSuffix(name, ".") + ".")
	if err != nil {
		t.Skip("no question can hold it")
	}
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: 7, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: n, Type: kind, Class: dnsmessage.ClassINET}},
	}
	b, err := m.Pack()
	if err != nil {
		t.Skip("no question can hold it")
	}
	return b
}

// ask sends a question as it is and returns the answer; nil for none.
// ask returns the answer, nil where there is none.
func (c *captured) ask(q []byte) *dnsmessage.Message {
	c.t.Helper()
	return c.askFor(q, 10*time.Second)
}

func (c *captured) askFor(q []byte, wait time.Duration) *dnsmessage.Message {
	c.t.Helper()
	if _, err := c.names.Write(q); err != nil {
		c.t.Fatal(err)
	}
	buf := make([]byte, 2048)
	c.names.SetReadDeadline(time.Now().Add(wait))
	n, err := c.names.Read(buf)
	if err != nil {
		return nil
	}
	return parse(c.t, buf[:n])
}

func parse(t testing.TB, b []byte) *dnsmessage.Message {
	t.Helper()
	m := &dnsmessage.Message{}
	if err := m.Unpack(b); err != nil {
		t.Fatal(err)
	}
	if m.ID != 7 || !m.Response {
		t.Errorf("the answer is %+v", m.Header)
	}
	return m
}

// address is what a name resolves to inside.
func (c *captured) address(name string) (netip.Addr, bool) {
	c.t.Helper()
	m := c.ask(question(c.t, name, dnsmessage.TypeA))
	if m == nil {
		c.t.Fatal("no answer")
	}
	if m.RCode != dnsmessage.RCodeSuccess {
		return netip.Addr{}, false
	}
	return netip.AddrFrom4(m.Answers[0].Body.(*dnsmessage.AResource).A), true
}

func nobody() (int, string) { return 42, "/bin/program" }

// open connects as the engine does: judged first, announced once connecting.
func (c *captured) open(to netip.AddrPort) (*net.TCPConn, bool) {
	c.t.Helper()
	r := c.tr.Route(to, true, nobody)
	if r.Refused != 0 {
		return nil, false
	}
	if !r.Capture {
		c.t.Fatalf("%s isn't captured", to)
	}
	conn, err := net.Dial("tcp", c.flows)
	if err != nil {
		c.t.Fatal(err)
	}
	r.Started(conn.LocalAddr().(*net.TCPAddr).AddrPort())
	return conn.(*net.TCPConn), true
}

// try goes all the way to one target.
func (c *captured) try(name string, addr netip.Addr, port uint16) {
	if !addr.IsValid() {
		var ok bool
		if addr, ok = c.address(name); !ok {
			return
		}
	}
	conn, ok := c.open(netip.AddrPortFrom(addr, port))
	if !ok {
		return
	}
	defer conn.Close()
	conn.CloseWrite()
	conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.Copy(io.Discard, conn)
}

// The verdicts of the table that HTTP, CONNECT and SOCKS5 share, once more.
func TestTransparentVerdicts(t *testing.T) {
	t.Parallel()
	l, cases := verdictLab(t)
	everything := rawServer(t, func(c net.Conn) { io.Copy(io.Discard, c) })
	for p := range 65536 {
		l.net.route(fmt.Sprintf(":%d", p), everything)
	}
	c := newCaptured(t, l)
	tried := 0
	for _, tc := range cases {
		name, addr, isAddr, err := policy.NormalizeHost(tc.host)
		if err != nil || name == "localhost" || isAddr && (addr.IsLoopback() || addr.IsUnspecified()) {
			continue // no question can hold it, or it is the sandbox itself
		}
		tried++
		t.Run(fmt.Sprintf("%s:%d", clip(tc.host), tc.port), func(t *testing.T) {
			before, dialed := len(l.events.all()), len(l.net.dials())
			c.try(name, addr, tc.port)
			l.events.wait(t, func(event.Event) bool { return len(l.events.list) > before })
			list := l.events.all()[before:]
			want := []string{tc.want}
			if !isAddr && (tc.want == egress.CodeDenied || tc.want == egress.CodeBadPort) {
				want = append(want, egress.CodeNotListed) // at the name, before there is a port
			}
			if ev := list[0]; len(list) != 1 || !strings.Contains(strings.Join(want, " "), ev.Reason) || ev.Reason == "" {
				t.Errorf("got %+v, want one with reason %s", list, want)
			}
			if tc.want != egress.CodeAllowed && len(l.net.dials()) != dialed {
				t.Errorf("refused, yet dialled %v", l.net.dials()[dialed:])
			}
		})
	}
	if tried < 250 {
		t.Errorf("%d cases were tried, want several hundred", tried)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	c := newCaptured(t, newLab(t, labConfig{allow: []string{"api.example:443", "*.wild.example"}, deny: []string{"no.wild.example"}}))
	first, ok := c.address("API.example.")
	if again, _ := c.address("api.example"); !ok || first != again || !netip.MustParsePrefix("198.18.0.0/15").Contains(first) {
		t.Errorf("got %s and %s", first, again)
	}
	if other, ok := c.address("a.wild.example"); !ok || other == first {
		t.Errorf("got %s, as for another name", other)
	}
	if local, ok := c.address("localhost"); !ok || local != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("localhost is %s", local)
	}
	for _, name := range []string{"example", "wild.example", "no.wild.example", "x.api.example", "198.18.0.1", "1.0.18.198.in-addr.arpa"} {
		if got, ok := c.address(name); ok {
			t.Errorf("%s is %s", name, got)
		}
	}
	for kind, want := range map[dnsmessage.Type]dnsmessage.RCode{
		dnsmessage.TypeAAAA: dnsmessage.RCodeSuccess, dnsmessage.TypeTXT: dnsmessage.RCodeRefused,
		dnsmessage.TypeMX: dnsmessage.RCodeRefused, dnsmessage.TypeSRV: dnsmessage.RCodeRefused,
		dnsmessage.Type(65): dnsmessage.RCodeRefused, dnsmessage.TypeALL: dnsmessage.RCodeRefused,
	} {
		if m := c.ask(question(t, "api.example", kind)); m == nil || m.RCode != want || len(m.Answers) != 0 {
			t.Errorf("%s: got %+v, want %s without data", kind, m, want)
		}
	}
	if n := len(c.lab.names.lookups()); n != 0 {
		t.Errorf("%d questions went out", n)
	}
}

// What isn't one question isn't answered as one, and hurts nobody.
func TestNamesHostile(t *testing.T) {
	t.Parallel()
	c := newCaptured(t, newLab(t, labConfig{allow: []string{"api.example"}}))
	good := question(t, "api.example", dnsmessage.TypeA)
	response := append([]byte(nil), good...)
	response[2] |= 0x80
	two := append([]byte(nil), good...)
	two[5] = 2
	for name, b := range map[string][]byte{"a response": response, "nothing": {}, "half a head": good[:7]} {
		if m := c.askFor(b, 500*time.Millisecond); m != nil {
			t.Errorf("%s: answered with %+v", name, m)
		}
	}
	for name, b := range map[string][]byte{"two questions": two, "cut": good[:20], "no question": append(append([]byte(nil), good[:5]...), make([]byte, 7)...)} {
		if m := c.ask(b); m == nil || m.RCode != dnsmessage.RCodeFormatError {
			t.Errorf("%s: got %+v", name, m)
		}
	}
	status := append([]byte(nil), good...)
	status[2] |= 2 << 3
	if m := c.ask(status); m == nil || m.RCode != dnsmessage.RCodeNotImplemented {
		t.Errorf("another opcode: got %+v", m)
	}
	if _, ok := c.address("api.example"); !ok {
		t.Error("the name service is gone")
	}
}

func TestNamesOverTCP(t *testing.T) {
	t.Parallel()
	c := newCaptured(t, newLab(t, labConfig{allow: []string{"api.example"}}))
	conn, err := net.Dial("tcp", c.tcp)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	q := question(t, "api.example", dnsmessage.TypeA)
	for range 3 {
		conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(q))), q...))
		var size [2]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			t.Fatal(err)
		}
		b := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(conn, b); err != nil {
			t.Fatal(err)
		}
		if m := parse(t, b); len(m.Answers) != 1 {
			t.Errorf("got %+v", m)
		}
	}
}

// The server speaks first, and nobody waits for the client to.
func TestTransparentServerFirst(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{allow: []string{"ssh.example"}})
	l.raw("ssh.example", 22, func(c net.Conn) {
		io.WriteString(c, "hello")
		io.Copy(c, c)
		c.(*net.TCPConn).CloseWrite()
	})
	c := newCaptured(t, l)
	addr, _ := c.address("ssh.example")
	conn, ok := c.open(netip.AddrPortFrom(addr, 22))
	if !ok {
		t.Fatal("refused")
	}
	defer conn.Close()
	buf := make([]byte, 5)
	if _, err := io.ReadFull(conn, buf); err != nil || string(buf) != "hello" {
		t.Fatalf("got %q %v", buf, err)
	}
	io.WriteString(conn, "echo")
	conn.CloseWrite()
	if got, err := io.ReadAll(conn); string(got) != "echo" || err != nil {
		t.Errorf("got %q %v", got, err)
	}
	ev := l.events.wait(t, func(e event.Event) bool { return e.Via == "transparent" })
	if ev.Action != event.Allowed || ev.Target != "ssh.example:22" || ev.PID != 42 || ev.Program != "/bin/program" || ev.Up != 4 || ev.Down != 9 {
		t.Errorf("got %+v", ev)
	}
}

// A connection that nobody announced leads nowhere.
func TestUnannouncedFlow(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{allow: []string{"api.example"}})
	c := newCaptured(t, l)
	conn, err := net.Dial("tcp", c.flows)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil || os.IsTimeout(err) {
		t.Errorf("got %d bytes, %v", n, err)
	}
	if n := len(l.net.dials()); n != 0 {
		t.Errorf("%d connections went out", n)
	}
}

// Whose connection to the proxy it is may be told only after it was accepted,
// but always before the program can send.
func TestPeerOfTheProxy(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{})
	c := newCaptured(t, l)
	r := c.tr.Route(netip.MustParseAddrPort(l.addr), true, nobody)
	conn, err := net.Dial("tcp", l.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for deadline := time.Now().Add(10 * time.Second); l.server.Active() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not accepted")
		}
	}
	time.Sleep(20 * time.Millisecond) // for a proxy that would ask too soon
	r.Started(conn.LocalAddr().(*net.TCPAddr).AddrPort())
	io.WriteString(conn, "CONNECT denied.example:443 HTTP/1.1\r\n\r\n")
	ev := l.events.wait(t, func(e event.Event) bool { return e.Via == "connect" })
	if ev.PID != 42 || ev.Program != "/bin/program" {
		t.Errorf("got %+v", ev)
	}
}
