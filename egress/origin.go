package egress

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
)

// maxServerHead bounds the head of an answer, interim ones included.
const maxServerHead = 1 << 20

// maxInterim bounds the informational answers before a final one.
const maxInterim = 16

// origin is the connection to a server that one client connection uses for
// plain requests. Client and server connections go together, as they would
// without a proxy between: nothing is shared between clients, and a server
// that closes an idle connection is noticed before the next request.
type origin struct {
	conn net.Conn
	in   *limited
	br   *bufio.Reader
	addr netip.Addr
	key  string
	// parent is the proxy at the far end, to which requests are sent in
	// absolute form; nil for a server.
	parent *url.URL
	reused bool
}

// limited bounds what is read while left isn't negative.
type limited struct {
	r    io.Reader
	left int64
}

var errHeadTooLong = errors.New("the head of its answer is too long")

func (l *limited) Read(p []byte) (int, error) {
	if l.left < 0 {
		return l.r.Read(p)
	}
	if l.left == 0 {
		return 0, errHeadTooLong
	}
	n, err := l.r.Read(p[:min(int64(len(p)), l.left)])
	l.left -= int64(n)
	return n, err
}

// originFor returns a connection for an allowed target: the one at hand where
// it leads there and lives, else a new one.
func (c *client) originFor(ctx context.Context, t Target, v Verdict) (*origin, error) {
	parent := c.s.Dialer.Upstream.choose(plainHTTP, v, t.Port)
	if parent != nil && parent.Scheme == "socks5" {
		parent = nil // a tunnel, which the dialer makes
	}
	key := t.String()
	if parent != nil && c.s.Dialer.Budget == nil { // a budget counts by host
		key = "via " + parent.Host
	}
	if o := c.origin; o != nil {
		if o.key == key && o.alive() {
			o.reused = true
			return o, nil
		}
		c.dropOrigin()
	}
	conn, addr, err := c.dialOrigin(ctx, t, v, parent)
	if err != nil {
		return nil, err
	}
	in := &limited{r: conn, left: -1}
	c.origin = &origin{conn: conn, in: in, br: bufio.NewReaderSize(in, smallHead), addr: addr, key: key, parent: parent}
	return c.origin, nil
}

func (c *client) dialOrigin(ctx context.Context, t Target, v Verdict, parent *url.URL) (net.Conn, netip.Addr, error) {
	if parent == nil {
		conn, v, err := c.s.Dialer.dial(ctx, t, plainHTTP)
		return conn, v.Addr, err
	}
	account, berr := c.s.Dialer.Budget.admit(t, v)
	if berr != nil {
		return nil, netip.Addr{}, berr
	}
	ctx, cancel := context.WithTimeout(ctx, c.s.Dialer.timeout())
	defer cancel()
	conn, err := c.s.Dialer.dialParent(ctx, parent)
	if err != nil {
		why := "the parent proxy " + parent.Host + " can't be reached: " + rootCause(err)
		return nil, netip.Addr{}, &Error{Code: CodeUpstream, Target: t.String(), Why: why, Err: err}
	}
	return account.meter(conn), netip.Addr{}, nil
}

func (c *client) dropOrigin() {
	if c.origin != nil {
		c.origin.conn.Close()
		c.origin = nil
	}
}

// alive reports whether an idle connection can be used again: one that has
// something to read was closed, or speaks without being asked.
func (o *origin) alive() bool {
	return o.br.Buffered() == 0 && isQuiet(o.conn)
}

// send writes a request, for the server's eyes or a parent's.
func (o *origin) send(req *http.Request) error {
	if o.parent == nil {
		return req.Write(o.conn)
	}
	if auth := basicAuth(o.parent); auth != "" {
		req.Header.Set("Proxy-Authorization", auth)
	}
	return req.WriteProxy(o.conn)
}

// receive reads the final answer; interim ones are given to each.
func (o *origin) receive(req *http.Request, each func(*http.Response) error) (*http.Response, error) {
	o.in.left = maxServerHead
	defer func() { o.in.left = -1 }()
	for range maxInterim {
		resp, err := http.ReadResponse(o.br, req)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode/100 != 1 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, nil
		}
		if err := each(resp); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("it sends one informational answer after the other")
}

// isQuiet looks, without waiting, whether a connection has nothing to read.
func isQuiet(conn net.Conn) bool {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return false // TLS can't be looked into: a new connection is safer
	}
	return readiness(tcp).quiet()
}
