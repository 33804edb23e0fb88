package egress_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pinfold/egress"
	"pinfold/event"
)

// quick are limits that a test can wait for.
var quick = egress.Limits{Head: 300 * time.Millisecond, KeepAlive: 300 * time.Millisecond, Idle: 600 * time.Millisecond}

// ends waits for the proxy to close the connection, and wants it within the
// limits.
func ends(t *testing.T, conn net.Conn) string {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	b, err := io.ReadAll(conn)
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		t.Errorf("the connection is open after 10 s")
	}
	return string(b)
}

// A client that stalls in any phase is given up, and the others are served.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{allow: []string{"raw.example", "web.example"}, limits: quick})
	l.raw("raw.example", 7, func(c net.Conn) { io.Copy(c, c) })
	l.web("web.example", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(io.Discard, r.Body) }))
	phases := map[string]string{
		"nothing":       "",
		"first line":    "GET http://web.ex",
		"fields":        "GET http://web.example/ HTTP/1.1\r\nHost: web.example\r\nX: ",
		"body":          "POST http://web.example/ HTTP/1.1\r\nHost: web.example\r\nContent-Length: 10\r\n\r\nabc",
		"chunk":         "POST http://web.example/ HTTP/1.1\r\nHost: web.example\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
		"kept alive":    "GET http://web.example/ HTTP/1.1\r\nHost: web.example\r\n\r\n",
		"tunnel":        "CONNECT raw.example:7 HTTP/1.1\r\n\r\nhello",
		"socks methods": "\x05\x02\x00",
		"socks request": "\x05\x01\x00\x05\x01\x00\x03\x0braw.ex",
		"socks tunnel":  "\x05\x01\x00\x05\x01\x00\x03\x0braw.example\x00\x07hello",
		"socks4":        "\x04",
	}
	for name, send := range phases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn := l.dial()
			io.WriteString(conn, send)
			ends(t, conn)
		})
	}
	t.Run("a byte at a time", func(t *testing.T) {
		t.Parallel()
		conn := l.dial()
		began := time.Now()
		for range 100 {
			if _, err := io.WriteString(conn, "G"); err != nil {
				return
			}
			time.Sleep(20 * time.Millisecond) // the attack is the waiting
		}
		t.Errorf("the head was waited for %v, want %v for the whole of it", time.Since(began), quick.Head)
	})
}

// A flow that moves now and then outlives the idle timeout many times.
func TestSlowButAlive(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{allow: []string{"raw.example", "web.example"}, limits: egress.Limits{Idle: 2 * time.Second}})
	drip := func(w io.Writer, flush func()) {
		for i := range 8 {
			fmt.Fprintf(w, "%d,", i)
			flush()
			time.Sleep(600 * time.Millisecond) // faster than idle, for longer than idle
		}
	}
	l.raw("raw.example", 7, func(c net.Conn) { drip(c, func() {}) })
	l.web("web.example", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sized" {
			w.Header().Set("Content-Length", "16")
		}
		drip(w, w.(http.Flusher).Flush)
	}))
	const want = "0,1,2,3,4,5,6,7,"
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, path := range []string{"/chunked", "/sized"} {
		wg.Go(func() {
			resp, err := l.client().Get("http://web.example" + path)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			if b, err := io.ReadAll(resp.Body); string(b) != want || err != nil {
				t.Errorf("%s: got %q %v", path, b, err)
			}
		})
	}
	// One way only: the silence of the other must not end it.
	_, br := l.connect("raw.example:7")
	if b, err := io.ReadAll(br); string(b) != want || err != nil {
		t.Errorf("tunnel: got %q %v", b, err)
	}
}

// Servers that stall, lie or break off. Beside no other test: the heap is
// everybody's.
func TestHostileServers(t *testing.T) {
	l := newLab(t, labConfig{allow: []string{"*.example"}, limits: quick})
	request := func(c net.Conn) { http.ReadRequest(bufio.NewReader(c)) }
	servers := map[string]struct {
		handle func(net.Conn)
		want   string
	}{
		"never": {func(c net.Conn) { io.Copy(io.Discard, c) }, "504 Gateway Timeout|timeout"},
		"half": {func(c net.Conn) {
			request(c)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nConte")
			io.Copy(io.Discard, c)
		}, "504 Gateway Timeout|timeout"},
		"closes":  {request, "502 Bad Gateway|upstream_closed"},
		"garbage": {func(c net.Conn) { request(c); io.WriteString(c, "SSH-2.0-x\r\n\r\n") }, "502 Bad Gateway|bad_upstream_response"},
		"headers": {func(c net.Conn) {
			request(c)
			io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			line := "X: " + strings.Repeat("x", 1000) + "\r\n"
			for range 1 << 20 { // 1 GiB, were it read
				if _, err := io.WriteString(c, line); err != nil {
					return
				}
			}
		}, "502 Bad Gateway|bad_upstream_response|too long"},
		"line": {func(c net.Conn) {
			request(c)
			io.WriteString(c, "HTTP/1.1 200 ")
			io.CopyN(c, &pattern{}, 1<<30)
		}, "502 Bad Gateway|bad_upstream_response"},
		"interim": {func(c net.Conn) {
			request(c)
			for range 1 << 20 {
				if _, err := io.WriteString(c, "HTTP/1.1 103 Early Hints\r\n\r\n"); err != nil {
					return
				}
			}
		}, "502 Bad Gateway|bad_upstream_response"},
		"reset": {func(c net.Conn) { request(c); c.(*net.TCPConn).SetLinger(0) }, "502 Bad Gateway|upstream_closed"},
	}
	for name, s := range servers {
		l.raw(name+".example", 80, s.handle)
	}
	for name, s := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := heap()
			conn := l.dial()
			fmt.Fprintf(conn, "GET http://%s.example/ HTTP/1.1\r\nHost: %s.example\r\n\r\n", name, name)
			br := bufio.NewReader(conn)
			var answer string
			for { // skip interim answers
				resp, err := http.ReadResponse(br, nil)
				if err != nil {
					t.Fatal(err)
				}
				if resp.StatusCode/100 == 1 {
					continue
				}
				answer = resp.Status + " " + body(t, resp, nil)
				break
			}
			contains(t, answer, strings.Split(s.want, "|")...)
			if grown := heap() - before; grown > 32<<20 {
				t.Errorf("the heap has grown by %d MiB", grown>>20)
			}
		})
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A body that breaks off must not look like a whole one.
func TestBrokenBodies(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{allow: []string{"*.example"}})
	for name, text := range map[string]string{
		"sized":   "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
		"chunked": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nshort\r\n",
		"chunk":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nshort",
		"badhex":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nshort",
	} {
		l.raw(name+".example", 80, func(c net.Conn) {
			http.ReadRequest(bufio.NewReader(c))
			io.WriteString(c, text)
		})
		for _, proto := range []string{"1.1", "1.0"} {
			conn := l.dial()
			fmt.Fprintf(conn, "GET http://%s.example/ HTTP/%s\r\nHost: %s.example\r\n\r\n", name, proto, name)
			br := bufio.NewReader(conn)
			resp, err := http.ReadResponse(br, nil)
			if err != nil {
				continue // the reset overtook the head: no whole answer either
			}
			if b, err := io.ReadAll(resp.Body); err == nil {
				t.Errorf("%s, HTTP/%s: got %q and no error", name, proto, b)
			}
		}
	}
}

// A reset in mid-transfer is passed on as one, both ways.
func TestResetsPassThrough(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{allow: []string{"raw.example"}})
	got := make(chan error, 1)
	l.raw("raw.example", 1, func(c net.Conn) {
		io.ReadFull(c, make([]byte, 1)) // or the reset could overtake the connection
		io.CopyN(c, &pattern{}, 1<<20)
		c.(*net.TCPConn).SetLinger(0)
	})
	l.raw("raw.example", 2, func(c net.Conn) {
		_, err := io.Copy(io.Discard, c)
		got <- err
	})
	l.names.set("raw.example", "203.0.113.1") // where port 1 is
	l.net.route("203.0.113.1:2", l.net.routes["203.0.113.2:2"])
	conn, br := l.connect("raw.example:1")
	io.WriteString(conn, "x")
	if n, err := io.Copy(io.Discard, br); err == nil {
		t.Errorf("got %d bytes and no error after a reset", n)
	}
	conn, _ = l.connect("raw.example:2")
	io.WriteString(conn, "hello")
	conn.SetLinger(0)
	conn.Close()
	if err := <-got; err == nil {
		t.Error("the server saw an ordinary end of file after a reset")
	}
}

// Nobody reads: what is on its way is bounded, and the tunnel ends. Alone,
// since the heap is everybody's; and with no limit but the one that is meant,
// or a client that a busy machine keeps from writing would have been too slow.
func TestPeersThatNeverRead(t *testing.T) {
	l := newLab(t, labConfig{allow: []string{"raw.example", "web.example"}, limits: egress.Limits{Idle: quick.Idle}})
	l.raw("raw.example", 7, func(c net.Conn) { io.Copy(c, &pattern{}) })
	l.web("web.example", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, &pattern{}) }))
	before := heap()
	var conns []net.Conn
	for range 10 {
		conn, _ := l.connect("raw.example:7")
		web := l.dial()
		io.WriteString(web, "GET http://web.example/ HTTP/1.1\r\nHost: web.example\r\n\r\n")
		conns = append(conns, conn, web)
	}
	l.events.wait(t, func(event.Event) bool { return len(l.events.list) >= len(conns) })
	if grown := heap() - before; grown > 64<<20 {
		t.Errorf("the heap has grown by %d MiB for %d connections", grown>>20, len(conns))
	}
}

// TestManyTunnels: 500 at once, all alive, all ended. Alone: they would take
// the machine from tests that measure time.
func TestManyTunnels(t *testing.T) {
	l := newLab(t, labConfig{allow: []string{"raw.example"}})
	l.server.Dialer.Timeout = time.Minute
	l.raw("raw.example", 7, func(c net.Conn) { io.Copy(c, c) })
	before := fds(t)
	var wg sync.WaitGroup
	for i := range 500 {
		wg.Go(func() {
			conn, br := l.connect("raw.example:7")
			defer conn.Close()
			want := strings.Repeat(fmt.Sprint(i, " "), 2000)
			go func() {
				io.WriteString(conn, want)
				conn.CloseWrite()
			}()
			if got, _ := io.ReadAll(br); string(got) != want {
				t.Errorf("tunnel %d: got %d bytes, want %d", i, len(got), len(want))
			}
		})
	}
	wg.Wait()
	idle(t, l)
	// The pipes of splice(2), the echo server's too, are kept by net until two
	// collections have passed; other tests run beside this one.
	after := 0
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		runtime.GC()
		if after = fds(t); after <= before+100 {
			return
		}
	}
	t.Errorf("%d descriptors before, %d after", before, after)
}

// idle waits until the proxy serves nobody.
func idle(t *testing.T, l *lab) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); l.server.Active() > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are left", l.server.Active())
		}
		time.Sleep(5 * time.Millisecond) // nothing tells
	}
}

func fds(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(list)
}

// TestKilledClients: thousands of connections cut at random points.
func TestKilledClients(t *testing.T) {
	t.Parallel()
	total := 10000
	if testing.Short() {
		total = 1000
	}
	l := newLab(t, labConfig{allow: []string{"raw.example", "web.example"}})
	l.raw("raw.example", 7, func(c net.Conn) { io.Copy(c, c) })
	l.web("web.example", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, strings.Repeat("x", 10000))
	}))
	scripts := []string{
		"CONNECT raw.example:7 HTTP/1.1\r\nHost: raw.example:7\r\n\r\n" + strings.Repeat("y", 5000),
		"GET http://web.example/ HTTP/1.1\r\nHost: web.example\r\n\r\nGET http://web.example/ HTTP/1.1\r\nHost: web.example\r\n\r\n",
		"POST http://web.example/ HTTP/1.1\r\nHost: web.example\r\nContent-Length: 5000\r\n\r\n" + strings.Repeat("z", 5000),
		"\x05\x01\x00\x05\x01\x00\x03\x0braw.example\x00\x07" + strings.Repeat("s", 5000),
		"GET http://denied.example/ HTTP/1.1\r\nHost: denied.example\r\n\r\n",
	}
	var wg sync.WaitGroup
	for worker := range 20 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(1, uint64(worker)))
			for range total / 20 {
				conn, err := net.Dial("tcp", l.addr)
				if err != nil {
					t.Error(err)
					return
				}
				conn.SetDeadline(time.Now().Add(10 * time.Millisecond))
				script := scripts[rng.IntN(len(scripts))]
				io.WriteString(conn, script[:rng.IntN(len(script)+1)])
				if rng.IntN(2) == 0 {
					io.CopyN(io.Discard, conn, int64(rng.IntN(20)))
				}
				if rng.IntN(2) == 0 {
					conn.(*net.TCPConn).SetLinger(0)
				}
				conn.Close()
			}
		})
	}
	wg.Wait()
	idle(t, l)
	resp, err := l.client().Get("http://web.example/")
	if got := body(t, resp, err); len(got) != 10000 {
		t.Errorf("afterwards: got %d bytes", len(got))
	}
}

// One client too many is told so; when one leaves, the next is served.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{allow: []string{"raw.example"}, limits: egress.Limits{Conns: 3}})
	l.raw("raw.example", 7, func(c net.Conn) { io.Copy(c, c) })
	var held []net.Conn
	for range 3 {
		c, _ := l.connect("raw.example:7")
		held = append(held, c)
	}
	conn := l.dial()
	answer, _ := io.ReadAll(conn)
	contains(t, string(answer), "503 Service Unavailable", egress.CodeTooMany)
	l.events.wait(t, func(e event.Event) bool { return e.Reason == egress.CodeTooMany })
	for _, c := range held {
		c.Close()
	}
	idle(t, l)
	l.connect("raw.example:7")
}

// flaky is a listener that is out of descriptors now and then.
type flaky struct {
	net.Listener
	fails int
	err   error
}

func (f *flaky) Accept() (net.Conn, error) {
	if f.fails > 0 {
		f.fails--
		return nil, f.err
	}
	return f.Listener.Accept()
}

func TestOutOfDescriptors(t *testing.T) {
	t.Parallel()
	d := egress.NewDecider(policyOf(t, []string{"raw.example"}, nil))
	s := &egress.Server{Decider: d, Dialer: &egress.Dialer{Decider: d}}
	ln := &flaky{Listener: listen(t), fails: 3, err: os.NewSyscallError("accept4", syscall.EMFILE)}
	done := make(chan error, 1)
	go func() { done <- s.Serve(context.Background(), ln) }()
	conn, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	contains(t, ends(t, conn), egress.CodeNotAProxy)
	s.Close()
	if err := <-done; !errors.Is(err, egress.ErrClosed) {
		t.Errorf("got %v", err)
	}
	broken := &flaky{Listener: listen(t), fails: 1, err: errors.New("broken")}
	s2 := &egress.Server{Decider: d, Dialer: &egress.Dialer{Decider: d}}
	if err := s2.Serve(context.Background(), broken); err == nil || errors.Is(err, egress.ErrClosed) {
		t.Errorf("got %v, want the listener's error", err)
	}
}

// Close ends everything in flight, at once.
func TestCloseEndsEverything(t *testing.T) {
	t.Parallel()
	d := egress.NewDecider(policyOf(t, []string{"127.0.0.1"}, nil))
	s := &egress.Server{Decider: d, Dialer: &egress.Dialer{Decider: d}}
	ctx, cancel := context.WithCancel(context.Background())
	ln := listen(t)
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	l := &lab{t: t, addr: ln.Addr().String()}
	stuck := rawServer(t, func(c net.Conn) { io.Copy(io.Discard, c) })
	for range 5 {
		l.connect(stuck)
		c := l.dial()
		fmt.Fprintf(c, "GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n", stuck, stuck)
		io.WriteString(l.dial(), "GET http")
		l.dial().Write([]byte{5})
		c = l.dial()
		fmt.Fprintf(c, "POST http://%s/ HTTP/1.1\r\nHost: %s\r\nContent-Length: 10\r\n\r\nabc", stuck, stuck)
	}
	for s.Active() < 25 {
		time.Sleep(time.Millisecond) // nothing tells
	}
	began := time.Now()
	cancel()
	<-done
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("it took %v", took)
	}
	if err := s.Serve(context.Background(), listen(t)); !errors.Is(err, egress.ErrClosed) {
		t.Errorf("a closed server serves: %v", err)
	}
}

// A server that never ends its side of a tunnel doesn't outlive the proxy:
// the lab insists that Serve returns.
func TestEndWithServersThatHoldOn(t *testing.T) {
	t.Parallel()
	ln, got, done := listen(t), make(chan string, 1), make(chan struct{})
	go func() {
		defer close(done)
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		b, _ := io.ReadAll(conn)
		got <- string(b)
		ln.Accept() //nolint:errcheck // until the listener is closed
		conn.Close()
	}()
	// What is registered first is done last: after the proxy's end.
	t.Cleanup(func() { ln.Close(); <-done })
	l := newLab(t, labConfig{allow: []string{"holds.example"}})
	l.host("holds.example", 7000, ln.Addr().String())
	c, _ := l.connect("holds.example:7000")
	io.WriteString(c, "bye")
	c.Close()
	if b := <-got; b != "bye" {
		t.Errorf("the server got %q", b)
	}
}
