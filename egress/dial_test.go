package egress_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pinfold/egress"
	"pinfold/policy"
)

// wire is a network in which each address answers after a while, or never.
type wire struct {
	mu      sync.Mutex
	answers map[string]time.Duration // negative: refuses after that long
	tried   []string
	open    int
}

type wireConn struct {
	net.Conn
	w *wire
}

func (c *wireConn) Close() error {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	c.w.open--
	return nil
}

func (w *wire) connect(ctx context.Context, addr netip.AddrPort) (net.Conn, error) {
	w.mu.Lock()
	w.tried = append(w.tried, addr.Addr().String())
	d, ok := w.answers[addr.Addr().String()]
	w.mu.Unlock()
	if !ok {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(max(d, -d)):
	}
	if d < 0 {
		return nil, os.NewSyscallError("connect", syscall.ECONNREFUSED)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open++
	return &wireConn{w: w}, nil
}

func TestHappyEyeballs(t *testing.T) {
	t.Parallel()
	const a4, b4, a6, b6 = "203.0.113.1", "203.0.113.2", "2001:db8::1", "2001:db8::2"
	tests := map[string]struct {
		addrs   string
		answers map[string]time.Duration
		tried   []string
		took    time.Duration
		code    string
	}{
		"first at once":        {a6 + " " + a4, map[string]time.Duration{a6: 0, a4: 0}, []string{a6}, 0, ""},
		"first is slow":        {a6 + " " + a4, map[string]time.Duration{a6: time.Second, a4: 0}, []string{a6, a4}, 250 * time.Millisecond, ""},
		"first is never":       {a6 + " " + b6 + " " + a4, map[string]time.Duration{a4: 0}, []string{a6, a4}, 250 * time.Millisecond, ""},
		"families alternate":   {a6 + " " + b6 + " " + a4 + " " + b4, map[string]time.Duration{b4: 0}, []string{a6, a4, b6, b4}, 750 * time.Millisecond, ""},
		"a refusal moves on":   {a6 + " " + a4, map[string]time.Duration{a6: -1, a4: 0}, []string{a6, a4}, 1, ""},
		"the slow one wins":    {a6 + " " + a4, map[string]time.Duration{a6: 400 * time.Millisecond, a4: time.Second}, []string{a6, a4}, 400 * time.Millisecond, ""},
		"all refuse":           {a6 + " " + a4, map[string]time.Duration{a6: -1, a4: -1}, []string{a6, a4}, 2, egress.CodeConnRefused},
		"nobody answers":       {a6 + " " + a4, nil, []string{a6, a4}, 5 * time.Second, egress.CodeTimeout},
		"mapped and repeated":  {"::ffff:" + a4 + " " + a4 + " " + a4, map[string]time.Duration{a4: 0}, []string{a4}, 0, ""},
		"one bad spoils all":   {a6 + " 10.0.0.1", map[string]time.Duration{a6: 0}, nil, 0, egress.CodePrivate},
		"bad one hidden last":  {a6 + " " + a4 + " " + b4 + " 169.254.169.254", map[string]time.Duration{a6: 0}, nil, 0, egress.CodeMetadata},
		"bad one beyond bound": {manyAddrs(40) + " 127.0.0.1", map[string]time.Duration{"203.0.113.10": 0}, nil, 0, egress.CodeLoopback},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, n := &wire{answers: tt.answers}, &names{}
				n.set("x.example", tt.addrs)
				dec := egress.NewDecider(policyOf(t, []string{"x.example"}, nil))
				d := &egress.Dialer{
					Decider: dec, Resolver: n, Connect: w.connect, Timeout: 5 * time.Second,
					SelfAddrs: func() (egress.HostAddrs, error) { return egress.HostAddrs{}, nil },
				}
				began := time.Now()
				conn, _, err := d.Dial(t.Context(), egress.Target{Host: "x.example", Port: 443})
				if took := time.Since(began); took != tt.took {
					t.Errorf("took %v, want %v", took, tt.took)
				}
				var e *egress.Error
				if got := errors.As(err, &e); got != (tt.code != "") || got && e.Code != tt.code {
					t.Errorf("got error %v, want %q", err, tt.code)
				}
				if !slices.Equal(w.tried, tt.tried) {
					t.Errorf("tried %v, want %v", w.tried, tt.tried)
				}
				if conn != nil {
					conn.Close()
				}
				if synctest.Wait(); w.open != 0 {
					t.Errorf("%d connections are left open", w.open)
				}
			})
		})
	}
}

func manyAddrs(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("203.0.113.%d", i+10))
	}
	return strings.Join(list, " ")
}

// Where this machine's addresses can't be read, nothing is dialled.
func TestSelfUnknownFailsClosed(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{allow: []string{"raw.example"}, selfErr: errors.New("no netlink")})
	l.raw("raw.example", 7, func(net.Conn) {})
	contains(t, l.send("CONNECT raw.example:7 HTTP/1.1\r\n\r\n"), "403", egress.CodeSelfUnknown)
	if d := l.net.dials(); len(d) != 0 {
		t.Errorf("dialled %v", d)
	}
}

// SystemAddrs holds what the machine's interfaces have.
func TestSystemAddrs(t *testing.T) {
	t.Parallel()
	h, err := egress.SystemAddrs()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(h.Own, netip.MustParseAddr("127.0.0.1")) {
		t.Errorf("got %v, want 127.0.0.1 among them", h.Own)
	}
	// An address that a socket gets for a destination far away is our own;
	// connect(2) on a datagram socket sends nothing.
	conn, err := net.Dial("udp", "203.0.113.1:9")
	if err != nil {
		t.Skip("this machine has no route")
	}
	defer conn.Close()
	local := conn.LocalAddr().(*net.UDPAddr).AddrPort().Addr()
	if !slices.Contains(h.Own, local) {
		t.Errorf("got %v, want %v among them", h.Own, local)
	}
}

// The machine's resolver is asked for the absolute name, and the hosts file
// still answers.
func TestSystemResolverReadsTheHostsFile(t *testing.T) {
	t.Parallel()
	dec := egress.NewDecider(policyOf(t, []string{"localhost"}, nil))
	d := &egress.Dialer{Decider: dec}
	_, v, err := d.Dial(t.Context(), egress.Target{Host: "localhost", Port: 9})
	var e *egress.Error
	if !errors.As(err, &e) || e.Code != egress.CodeLoopback || !v.Addr.IsLoopback() {
		t.Errorf("got %v %v, want the loopback address refused", v, err)
	}
	contains(t, err.Error(), "localhost:9", "this machine's loopback")
}

func TestExplain(t *testing.T) {
	t.Parallel()
	n := policyOf(t, []string{"api.example", "*.wild.example:443"}, []string{"gist.example"})
	n.Allow[0].Source, n.Deny[0].Source = "network.allow[0]", "network.deny[0]"
	n.HostPorts = []uint16{5432}
	d := egress.NewDecider(n)
	for target, want := range map[egress.Target]string{
		{Host: "API.example.", Port: 443}:  `api.example:443: allowed: network.allow[0] allows it ("api.example")`,
		{Host: "gist.example", Port: 443}:  "gist.example:443: denied (denied): network.deny[0] denies it (\"gist.example\")\nhint: take \"gist.example\" out of network.deny",
		{Host: "x.example", Port: 22}:      "x.example:22: denied (not_listed): no entry of network.allow matches it\nhint: add \"x.example:22\" to network.allow",
		{Host: "a.wild.example", Port: 80}: "a.wild.example:80: denied (not_listed): no entry of network.allow matches it\nhint: add \"a.wild.example:80\" to network.allow",
		{Host: "::1", Port: 80}:            "[::1]:80: denied (not_listed): no entry of network.allow matches it\nhint: add 80 to network.host_ports: the command's own loopback isn't the host's",
		{Host: "localhost", Port: 5432}:    "localhost:5432: allowed: network.host_ports lists 5432, the host's own port",
		{Host: "127.0.0.2", Port: 5432}:    "127.0.0.2:5432: denied (not_listed): no entry of network.allow matches it\nhint: add \"127.0.0.2:5432\" to network.allow",
		{Host: "a\x1b[2Jb", Port: 80}:      "a?[2Jb:80: denied (bad_host): it holds the character U+001B",
	} {
		if got := d.Explain(target); got != want {
			t.Errorf("%v: got\n%s, want\n%s", target, got, want)
		}
	}
	if !egress.NewDecider(policy.Network{}).Empty() || d.Empty() {
		t.Error("Empty is wrong")
	}
	own := egress.NewDecider(policyOf(t, []string{"127.0.0.1:80"}, nil)).Explain(egress.Target{Host: "127.0.0.1", Port: 80})
	contains(t, own, "127.0.0.1:80: allowed: ", "\nnote: only for a program that asks the proxy", "add 80 to network.host_ports")
}

// Every hint is an entry that the policy's parser takes and that, added,
// makes the decider say yes.
func TestHintsAreTrue(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"x.example", "X.Example.", "10.0.0.1", "127.1", "::1", "[2001:db8::1]", "bücher.example", "_x.y.example"} {
		target := egress.Target{Host: host, Port: 8080}
		v := egress.NewDecider(policy.Network{}).Decide(target)
		p, err := policy.ParseHostPattern(v.Hint)
		if err != nil {
			t.Errorf("%s: the hint is no entry: %v", host, err)
			continue
		}
		if v := egress.NewDecider(policy.Network{Allow: []policy.HostPattern{p}}).Decide(target); !v.Allowed {
			t.Errorf("%s: %q doesn't allow it", host, p.Text)
		}
	}
}
