package egress_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pinfold/egress"
	"pinfold/event"
	"pinfold/policy"
)

// lab is a proxy with a name service of its own and a network that leads
// every checked address to a server on loopback.
type lab struct {
	t      testing.TB
	addr   string
	server *egress.Server
	events *events
	names  *names
	net    *network
}

// labConfig is what a test varies; zero values are fine.
type labConfig struct {
	allow, deny []string
	self        egress.HostAddrs
	selfErr     error
	limits      egress.Limits
	upstream    *egress.Upstream
	real        bool // dial for real, on loopback
}

func newLab(t testing.TB, cfg labConfig) *lab {
	t.Helper()
	d := egress.NewDecider(policy.Network{Allow: patterns(t, cfg.allow), Deny: denyPatterns(t, cfg.deny)})
	l := &lab{t: t, events: &events{}, names: &names{}, net: &network{}}
	dialer := &egress.Dialer{
		Decider: d, Resolver: l.names, Upstream: cfg.upstream, Connect: l.net.connect, Timeout: 5 * time.Second,
		SelfAddrs: func() (egress.HostAddrs, error) { return cfg.self, cfg.selfErr },
	}
	if cfg.real {
		dialer.Connect = nil
	}
	l.server = &egress.Server{Decider: d, Dialer: dialer, Events: l.events, AllFlows: true, Limits: cfg.limits}
	l.addr = serve(t, l.server)
	return l
}

// serve starts a server on loopback and ends it with the test.
func serve(t testing.TB, s *egress.Server) string {
	t.Helper()
	ln := listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	t.Cleanup(func() {
		cancel()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Error("Serve didn't return within 10 s of its context's end")
		}
	})
	return ln.Addr().String()
}

func listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

func patterns(t testing.TB, texts []string) []policy.HostPattern {
	t.Helper()
	return parseAll(t, texts, policy.ParseHostPattern)
}

func denyPatterns(t testing.TB, texts []string) []policy.HostPattern {
	t.Helper()
	return parseAll(t, texts, policy.ParseDenyPattern)
}

func parseAll(t testing.TB, texts []string, parse func(string) (policy.HostPattern, error)) []policy.HostPattern {
	t.Helper()
	var list []policy.HostPattern
	for _, text := range texts {
		p, err := parse(text)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

// events collects what was emitted.
type events struct {
	mu   sync.Mutex
	list []event.Event
	wake chan struct{}
}

func (e *events) Emit(ev event.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.list = append(e.list, ev)
	if e.wake != nil {
		close(e.wake)
		e.wake = nil
	}
}

func (e *events) all() []event.Event {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.list)
}

// wait returns the first event that fits.
func (e *events) wait(t testing.TB, fits func(event.Event) bool) event.Event {
	t.Helper()
	deadline := time.After(10 * time.Second)
	for {
		e.mu.Lock()
		i := slices.IndexFunc(e.list, fits)
		var found event.Event
		if i >= 0 {
			found = e.list[i]
		}
		if e.wake == nil {
			e.wake = make(chan struct{})
		}
		wake := e.wake
		e.mu.Unlock()
		if i >= 0 {
			return found
		}
		select {
		case <-wake:
		case <-deadline:
			t.Fatalf("no such event among the last of %d: %+v", len(e.all()), e.all()[max(0, len(e.all())-3):])
		}
	}
}

// names is a resolver: a name has addresses or an error; each look-up is
// counted, and a list of lists answers differently each time.
type names struct {
	mu    sync.Mutex
	hosts map[string][][]netip.Addr
	errs  map[string]error
	asked []string
}

func (n *names) set(name string, answers ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.hosts == nil {
		n.hosts = map[string][][]netip.Addr{}
	}
	n.hosts[name] = nil
	for _, a := range answers {
		var list []netip.Addr
		for one := range strings.FieldsSeq(a) {
			list = append(list, netip.MustParseAddr(one))
		}
		n.hosts[name] = append(n.hosts[name], list)
	}
}

func (n *names) fail(name string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.errs == nil {
		n.errs = map[string]error{}
	}
	n.errs[name] = err
}

func (n *names) LookupNetIP(_ context.Context, network, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	name, absolute := strings.CutSuffix(host, ".")
	if !absolute || network != "ip" {
		return nil, fmt.Errorf("looked up %q in %q, want an absolute name in \"ip\"", host, network)
	}
	n.asked = append(n.asked, name)
	if err := n.errs[name]; err != nil {
		return nil, err
	}
	answers := n.hosts[name]
	if len(answers) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
	}
	if len(answers) > 1 {
		n.hosts[name] = answers[1:]
	}
	return answers[0], nil
}

func (n *names) lookups() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.asked)
}

// network leads checked addresses to servers on loopback, and records what
// was dialled.
type network struct {
	mu     sync.Mutex
	routes map[string]string // "addr:port", or ":port" for any address
	errs   map[string]error
	dialed []netip.AddrPort
}

func (n *network) route(from, to string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.routes == nil {
		n.routes = map[string]string{}
	}
	n.routes[from] = to
}

func (n *network) connect(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	n.mu.Lock()
	n.dialed = append(n.dialed, addr)
	to, ok := n.routes[addr.String()]
	if !ok {
		to, ok = n.routes[fmt.Sprintf(":%d", addr.Port())]
	}
	err := n.errs[addr.String()]
	n.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, fmt.Errorf("no route to %s", addr)
	}
	var d net.Dialer
	return d.DialContext(ctx, "tcp", to)
}

func (n *network) dials() []netip.AddrPort {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.dialed)
}

// web starts an HTTP server on loopback and routes names' port 80 to it.
func (l *lab) web(name string, h http.Handler) {
	ln := listen(l.t)
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go s.Serve(ln)
	l.t.Cleanup(func() { s.Close() })
	l.host(name, 80, ln.Addr().String())
}

// raw starts a TCP server on loopback for a name's port.
func (l *lab) raw(name string, port int, handle func(net.Conn)) {
	l.host(name, port, rawServer(l.t, handle))
}

func (l *lab) host(name string, port int, addr string) {
	ip := fmt.Sprintf("203.0.113.%d", len(l.net.routes)+1)
	l.names.set(name, ip)
	l.net.route(fmt.Sprintf("%s:%d", ip, port), addr)
}

func rawServer(t testing.TB, handle func(net.Conn)) string {
	t.Helper()
	ln := listen(t)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				handle(conn)
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		wg.Wait()
	})
	return ln.Addr().String()
}

// dial connects to the proxy with a deadline that ends a stuck test.
func (l *lab) dial() *net.TCPConn {
	l.t.Helper()
	conn, err := net.Dial("tcp", l.addr)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	return conn.(*net.TCPConn)
}

// send writes text, closes the sending side and returns everything that comes
// back.
func (l *lab) send(text string) string {
	l.t.Helper()
	conn := l.dial()
	defer conn.Close()
	io.WriteString(conn, text)
	conn.CloseWrite()
	answer, _ := io.ReadAll(conn)
	return string(answer)
}

// connect opens a CONNECT tunnel.
func (l *lab) connect(target string) (*net.TCPConn, *bufio.Reader) {
	l.t.Helper()
	conn := l.dial()
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
	br := bufio.NewReader(conn)
	resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodConnect})
	if err != nil {
		l.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(resp.Body)
		l.t.Fatalf("CONNECT %s: %s: %s", target, resp.Status, why)
	}
	return conn, br
}

// socks speaks SOCKS5 by hand and returns the reply code, -1 for none.
func (l *lab) socks(kind byte, host []byte, port uint16) int {
	l.t.Helper()
	conn := l.dial()
	defer conn.Close()
	conn.Write([]byte{5, 1, 0})
	req := []byte{5, 1, 0, kind}
	if kind == 3 {
		req = append(req, byte(len(host)))
	}
	conn.Write(append(append(req, host...), byte(port>>8), byte(port)))
	var reply [12]byte
	if n, _ := io.ReadFull(conn, reply[:]); n < 4 {
		return -1
	}
	return int(reply[3])
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("got %q, want it to hold %q", clip(text), p)
		}
	}
}

func clip(s string) string {
	if len(s) > 600 {
		return s[:600] + "…"
	}
	return s
}
