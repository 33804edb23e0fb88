package egress_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"pinfold/egress"
	"pinfold/policy"
)

func seedHeads(f *testing.F) {
	for _, a := range attacks {
		if len(a.send) < 4096 {
			f.Add(strings.ReplaceAll(a.send, "ALLOWED", "allowed.example"))
		}
	}
	f.Add("GET http://allowed.example/x HTTP/1.1\r\nHost: allowed.example\r\nConnection: close, X\r\nX: y\r\n\r\n")
	f.Add("POST http://allowed.example:80/ HTTP/1.1\r\nHost: allowed.example\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n0\r\nX: y\r\n\r\n")
	f.Add("POST http://u@ALLOWED.example./ HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc")
}

// FuzzHead: what the proxy takes, net/http must read in the same way: the
// same bytes as head, the same framing.
func FuzzHead(f *testing.F) {
	seedHeads(f)
	f.Fuzz(func(t *testing.T, data string) {
		h, err := egress.ReadHead(data)
		if err != nil || h.Method == http.MethodConnect {
			return
		}
		r := strings.NewReader(data)
		br := bufio.NewReaderSize(r, 64<<10)
		req, err := http.ReadRequest(br)
		if err != nil {
			return // refused all the same
		}
		if used := len(data) - r.Len() - br.Buffered(); used != h.Size {
			t.Fatalf("the head has %d bytes, net/http took %d", h.Size, used)
		}
		chunked := len(req.TransferEncoding) == 1 && req.TransferEncoding[0] == "chunked"
		if req.Method != h.Method || req.RequestURI != h.Target || chunked != (len(h.Coding) == 1) {
			t.Fatalf("got %+v, net/http reads %+v", h, req)
		}
		if len(h.Length) == 1 {
			if n, err := strconv.ParseInt(h.Length[0], 10, 64); err != nil || n != req.ContentLength {
				t.Fatalf("got length %v, net/http reads %d", h.Length, req.ContentLength)
			}
		}
	})
}

// FuzzOutgoing: what would be sent is one well-formed request for the very
// host that was decided on, and holds nothing that ends at this hop.
func FuzzOutgoing(f *testing.F) {
	seedHeads(f)
	allow, err := policy.ParseHostPattern("*.example")
	if err != nil {
		f.Fatal(err)
	}
	d := egress.NewDecider(policy.Network{Allow: []policy.HostPattern{allow}})
	f.Fuzz(func(t *testing.T, data string) {
		req, target := egress.Outgoing(data, d)
		if req == nil {
			return
		}
		var b bytes.Buffer
		if err := req.Write(&b); err != nil {
			return // the body is broken
		}
		again, err := http.ReadRequest(bufio.NewReader(&b))
		if err != nil {
			t.Fatalf("a server can't read %q: %v", b.String(), err)
		}
		name, _, _, err := policy.NormalizeHost(target.Host)
		if got := strings.TrimSuffix(again.Host, ":80"); err != nil || !strings.HasPrefix(again.Host, name) || target.Port == 80 && got != name {
			t.Fatalf("decided on %q, the server sees %q (%v)", name, again.Host, err)
		}
		for field := range again.Header {
			if strings.HasPrefix(field, "Proxy-") || field == "Keep-Alive" || field == "Trailer" {
				t.Fatalf("%s is passed on", field)
			}
		}
		if _, err := egress.ReadHead(strings.Replace(b.String(), " /", " http://"+name+"/", 1)); err != nil && strings.Contains(err.Error(), "both") {
			t.Fatalf("what is sent is ambiguous: %v", err)
		}
	})
}

// pipes is a listener of in-memory connections.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	select {
	case <-p.done:
	default:
		close(p.done)
	}
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes"} }

// FuzzFrontEnds: whatever a client sends, only the listed host is looked up
// and only its checked address is dialled, and the connection ends when the
// client does.
func FuzzFrontEnds(f *testing.F) {
	for _, a := range attacks {
		if len(a.send) < 4096 {
			f.Add([]byte(strings.ReplaceAll(a.send, "ALLOWED", "allowed.example")))
		}
	}
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x03\x0fallowed.example\x00\x50GET"))
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x01\x7f\x00\x00\x01\x00\x50"))
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x7f\x00\x00\x01\x00\x50"))
	f.Add([]byte("\x04\x01\x00\x50\x00\x00\x00\x01u\x00allowed.example\x00"))
	allow, err := policy.ParseHostPattern("allowed.example")
	if err != nil {
		f.Fatal(err)
	}
	d := egress.NewDecider(policy.Network{Allow: []policy.HostPattern{allow}})
	f.Fuzz(func(t *testing.T, data []byte) {
		n := &names{}
		n.set("allowed.example", "203.0.113.9")
		want := netip.MustParseAddr("203.0.113.9")
		dialer := &egress.Dialer{
			Decider: d, Resolver: n, SelfAddrs: func() (egress.HostAddrs, error) { return egress.HostAddrs{}, nil },
			Connect: func(_ context.Context, addr netip.AddrPort) (net.Conn, error) {
				if addr.Addr() != want {
					t.Errorf("dialled %v", addr)
				}
				near, far := net.Pipe()
				go func() {
					io.WriteString(far, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
					io.Copy(io.Discard, far)
					far.Close()
				}()
				return near, nil
			},
		}
		s := &egress.Server{Decider: d, Dialer: dialer, Limits: egress.Limits{Head: time.Second, KeepAlive: time.Second, Idle: time.Second}}
		ln := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		served := make(chan error, 1)
		go func() { served <- s.Serve(context.Background(), ln) }()
		client, server := net.Pipe()
		ln.conns <- server
		read := make(chan struct{})
		go func() {
			io.Copy(io.Discard, client)
			close(read)
		}()
		client.SetWriteDeadline(time.Now().Add(time.Second))
		client.Write(data)
		client.Close()
		<-read
		s.Close()
		select {
		case <-served:
		case <-time.After(10 * time.Second):
			t.Fatal("Serve doesn't return")
		}
		for _, name := range n.lookups() {
			if name != "allowed.example" {
				t.Errorf("looked up %q", name)
			}
		}
	})
}
