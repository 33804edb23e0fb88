package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/proxy"
)

// maxParentHead bounds what a parent proxy may answer before the tunnel.
const maxParentHead = 64 << 10

// dialThrough opens a tunnel to an allowed target through a parent proxy. The
// parent's own address is the operator's business and isn't checked.
func (d *Dialer) dialThrough(ctx context.Context, parent *url.URL, v Verdict, t Target) (net.Conn, *Error) {
	fail := func(why string, err error) *Error {
		return &Error{Code: CodeUpstream, Target: t.String(), Why: "the parent proxy " + parent.Host + " " + why, Err: err}
	}
	conn, err := d.dialParent(ctx, parent)
	if err != nil {
		return nil, fail("can't be reached: "+rootCause(err), err)
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	host := net.JoinHostPort(v.Name, strconv.Itoa(int(t.Port)))
	tunnel, why, err := openTunnel(ctx, conn, parent, host)
	if !stop() && err == nil {
		why, err = "didn't answer in time", ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, fail(why, err)
	}
	return tunnel, nil
}

// dialParent connects to the parent and, for https, speaks TLS to it.
func (d *Dialer) dialParent(ctx context.Context, parent *url.URL) (net.Conn, error) {
	var nd net.Dialer
	conn, err := nd.DialContext(ctx, "tcp", parent.Host)
	if err != nil || parent.Scheme != "https" {
		return conn, err
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if d.Upstream.TLS != nil {
		cfg = d.Upstream.TLS.Clone()
	}
	cfg.ServerName, cfg.NextProtos = parent.Hostname(), []string{"http/1.1"}
	tc := tls.Client(conn, cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, fmt.Errorf("cannot agree on TLS: %w", err)
	}
	return tc, nil
}

func openTunnel(ctx context.Context, conn net.Conn, parent *url.URL, host string) (_ net.Conn, why string, err error) {
	if parent.Scheme == "socks5" {
		return conn, "refused the tunnel", socksTunnel(ctx, conn, parent, host)
	}
	return connectTunnel(conn, parent, host)
}

// connWithDial is what x/net's SOCKS dialer offers beside its interface: the
// handshake on a connection that stays ours, so that splice(2) still applies.
type connWithDial interface {
	DialWithConn(ctx context.Context, c net.Conn, network, address string) (net.Addr, error)
}

func socksTunnel(ctx context.Context, conn net.Conn, parent *url.URL, host string) error {
	var auth *proxy.Auth
	if parent.User != nil {
		password, _ := parent.User.Password()
		auth = &proxy.Auth{User: parent.User.Username(), Password: password}
	}
	dialer, err := proxy.SOCKS5("tcp", parent.Host, auth, nil)
	if err != nil {
		return fmt.Errorf("cannot speak SOCKS5: %w", err)
	}
	d, ok := dialer.(connWithDial)
	if !ok {
		return fmt.Errorf("cannot speak SOCKS5: internal error: %T has no DialWithConn", dialer)
	}
	_, err = d.DialWithConn(ctx, conn, "tcp", host)
	return err
}

func connectTunnel(conn net.Conn, parent *url.URL, host string) (_ net.Conn, why string, err error) {
	head := "CONNECT " + host + " HTTP/1.1\r\nHost: " + host + "\r\n"
	if auth := basicAuth(parent); auth != "" {
		head += "Proxy-Authorization: " + auth + "\r\n"
	}
	if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
		return nil, "closed the connection", err
	}
	br := bufio.NewReader(io.LimitReader(conn, maxParentHead))
	resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return nil, "gave no answer to CONNECT", err
	}
	// No Close: the body of an answer to CONNECT is the tunnel.
	if resp.StatusCode/100 != 2 {
		why := "answered " + strings.TrimSpace(printable(resp.Status))
		if resp.StatusCode == http.StatusProxyAuthRequired {
			why += " (its credentials belong into network.upstream)"
		}
		return nil, why, fmt.Errorf("status %d", resp.StatusCode)
	}
	return withPrefix(conn, br), "", nil
}

func basicAuth(u *url.URL) string {
	if u.User == nil {
		return ""
	}
	password, _ := u.User.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(u.User.Username()+":"+password))
}

// prefixed is a connection of which the first bytes were already read.
type prefixed struct {
	net.Conn
	head []byte
}

// withPrefix gives bytes that the reader holds back to the connection, and
// the bare connection where there are none.
func withPrefix(conn net.Conn, br *bufio.Reader) net.Conn {
	if br.Buffered() == 0 {
		return conn
	}
	head, _ := br.Peek(br.Buffered()) // can't fail: that much is there
	return &prefixed{Conn: conn, head: head}
}

func (p *prefixed) Read(b []byte) (int, error) {
	if len(p.head) > 0 {
		n := copy(b, p.head)
		p.head = p.head[n:]
		return n, nil
	}
	return p.Conn.Read(b)
}

// CloseWrite passes a half-close on.
func (p *prefixed) CloseWrite() error { return closeWrite(p.Conn) }
