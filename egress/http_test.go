package egress_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"pinfold/egress"
	"pinfold/event"
)

// client is net/http's, through the proxy.
func (l *lab) client() *http.Client {
	tr := &http.Transport{
		Proxy:                 http.ProxyURL(&url.URL{Scheme: "http", Host: l.addr}),
		ExpectContinueTimeout: 5 * time.Second, DisableCompression: true,
	}
	l.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}

func body(t testing.TB, resp *http.Response, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func webLab(t *testing.T, h http.HandlerFunc) *lab {
	l := newLab(t, labConfig{allow: []string{"web.example", "raw.example", "*.more.example"}})
	l.web("web.example", h)
	return l
}

func TestKeepAliveReusesTheClientConnection(t *testing.T) {
	t.Parallel()
	l := webLab(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) })
	conn := l.dial()
	br := bufio.NewReader(conn)
	for i := range 5 {
		fmt.Fprintf(conn, "GET http://web.example/%d HTTP/1.1\r\nHost: web.example\r\n\r\n", i)
		resp, err := http.ReadResponse(br, nil)
		if got := body(t, resp, err); got != fmt.Sprintf("/%d", i) {
			t.Errorf("request %d: got %q", i, got)
		}
	}
	// A refusal and its like keep the connection too.
	fmt.Fprint(conn, "GET http://other.example/ HTTP/1.1\r\nHost: other.example\r\n\r\nGET http://web.example/after HTTP/1.1\r\nHost: web.example\r\n\r\n")
	resp, err := http.ReadResponse(br, nil)
	contains(t, body(t, resp, err), "other.example:80", `add "other.example:80" to network.allow`)
	if resp.StatusCode != http.StatusForbidden || resp.Header.Get(egress.ReasonHeader) != egress.CodeNotListed {
		t.Errorf("got %s %v", resp.Status, resp.Header)
	}
	resp, err = http.ReadResponse(br, nil)
	if got := body(t, resp, err); got != "/after" {
		t.Errorf("got %q after a refusal", got)
	}
}

func TestPipelinedRequestsAreJudgedOneByOne(t *testing.T) {
	t.Parallel()
	l := webLab(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "ok "+r.URL.Path+" ") })
	got := l.send("POST http://web.example/1 HTTP/1.1\r\nHost: web.example\r\nContent-Length: 3\r\n\r\nabc" +
		"GET http://denied.example/2 HTTP/1.1\r\nHost: denied.example\r\n\r\n" +
		"POST http://web.example/3 HTTP/1.1\r\nHost: web.example\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" +
		"GET http://web.example/4 HTTP/1.1\r\nHost: web.example\r\nConnection: close\r\n\r\n")
	contains(t, got, "ok /1 ", "403 Forbidden", "ok /3 ", "ok /4 ")
	if dials := l.net.dials(); len(dials) != 1 {
		t.Errorf("dialled %v, want one connection that is used again", dials)
	}
}

func TestFraming(t *testing.T) {
	t.Parallel()
	l := webLab(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/sized":
			w.Header().Set("Content-Length", "5")
			io.WriteString(w, "12345")
		case "/chunked":
			w.Header().Set("Trailer", "X-Sum")
			w.(http.Flusher).Flush()
			io.WriteString(w, "12345")
			w.Header().Set("X-Sum", "15")
			w.Header().Set(http.TrailerPrefix+"X-Late", "late")
		case "/204":
			w.WriteHeader(http.StatusNoContent)
		case "/304":
			w.Header().Set("Content-Length", "99")
			w.Header().Set("Etag", `"x"`)
			w.WriteHeader(http.StatusNotModified)
		case "/500":
			w.WriteHeader(http.StatusInternalServerError)
		case "/early":
			w.Header().Set("Link", "</style.css>")
			w.WriteHeader(http.StatusEarlyHints)
			io.WriteString(w, "done")
		}
	})
	c := l.client()
	for path, want := range map[string]int{"/sized": 200, "/chunked": 200, "/204": 204, "/304": 304, "/500": 500, "/early": 200} {
		for _, method := range []string{"GET", "HEAD", "POST", "PURGE"} {
			req, _ := http.NewRequest(method, "http://web.example"+path, nil)
			resp, err := c.Do(req)
			text := body(t, resp, err)
			if resp.StatusCode != want {
				t.Errorf("%s %s: got %s", method, path, resp.Status)
			}
			if method == "HEAD" && text != "" || method != "HEAD" && (path == "/sized" || path == "/chunked") && text != "12345" {
				t.Errorf("%s %s: got body %q", method, path, text)
			}
			if path == "/sized" && resp.ContentLength != 5 {
				t.Errorf("%s %s: got length %d", method, path, resp.ContentLength)
			}
			if path == "/chunked" && method == "GET" && (resp.Trailer.Get("X-Sum") != "15" || resp.Trailer.Get("X-Late") != "late") {
				t.Errorf("got trailers %v", resp.Trailer)
			}
		}
	}
	got := l.send("GET http://web.example/early HTTP/1.1\r\nHost: web.example\r\nConnection: close\r\n\r\n")
	contains(t, got, "HTTP/1.1 103 Early Hints\r\n", "Link: </style.css>", "HTTP/1.1 200 OK", "done")
	got = l.send("GET http://web.example/chunked HTTP/1.0\r\n\r\n")
	if strings.Contains(got, "chunked") || !strings.HasSuffix(got, "\r\n\r\n12345") {
		t.Errorf("HTTP/1.0 got %q", got)
	}
}

func TestRequestBodies(t *testing.T) {
	t.Parallel()
	l := webLab(t, func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%d %v %d %q", n, err, r.ContentLength, r.Trailer.Get("X-T"))
	})
	c := l.client()
	big := strings.Repeat("x", 3<<20)
	resp, err := c.Post("http://web.example/", "text/plain", strings.NewReader(big))
	if got := body(t, resp, err); got != fmt.Sprintf("%d <nil> %d \"\"", len(big), len(big)) {
		t.Errorf("sized: got %q", got)
	}
	req, _ := http.NewRequest("PUT", "http://web.example/", io.MultiReader(strings.NewReader(big)))
	req.Trailer = http.Header{"X-T": {"tail"}}
	resp, err = c.Do(req)
	if got := body(t, resp, err); got != fmt.Sprintf("%d <nil> -1 \"tail\"", len(big)) {
		t.Errorf("chunked: got %q", got)
	}
}

func TestExpectContinue(t *testing.T) {
	t.Parallel()
	l := webLab(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			http.Error(w, "not wanted", http.StatusForbidden)
			return
		}
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "got %s", b)
	})
	conn := l.dial()
	br := bufio.NewReader(conn)
	head := "POST http://web.example%s HTTP/1.1\r\nHost: web.example\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"
	fmt.Fprintf(conn, head, "/yes")
	line, _ := br.ReadString('\n')
	if line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("got %q before the body was sent", line)
	}
	br.ReadString('\n')
	io.WriteString(conn, "body")
	resp, err := http.ReadResponse(br, nil)
	if got := body(t, resp, err); got != "got body" {
		t.Errorf("got %q", got)
	}
	fmt.Fprintf(conn, head, "/no")
	resp, err = http.ReadResponse(br, nil)
	if got := body(t, resp, err); resp.StatusCode != http.StatusForbidden || !strings.Contains(got, "not wanted") {
		t.Errorf("got %s %q, want the refusal without a 100", resp.Status, got)
	}
}

func TestEventsAreNotHeldUp(t *testing.T) {
	t.Parallel()
	next := make(chan string)
	l := webLab(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		for s := range next {
			io.WriteString(w, s)
			w.(http.Flusher).Flush()
		}
	})
	resp, err := l.client().Get("http://web.example/")
	if err == nil {
		t.Log("the head came before the first event")
	} else {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	buf := make([]byte, 100)
	for i := range 5 {
		want := fmt.Sprintf("data: %d\n\n", i)
		next <- want
		if n, _ := resp.Body.Read(buf); string(buf[:n]) != want {
			t.Errorf("got %q, want %q", buf[:n], want)
		}
	}
	close(next)
}

func TestWhatIsPassedOn(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 1)
	l := newLab(t, labConfig{allow: []string{"raw.example"}})
	l.raw("raw.example", 8080, func(c net.Conn) {
		var b bytes.Buffer
		br := bufio.NewReader(io.TeeReader(c, &b))
		if _, err := http.ReadRequest(br); err == nil {
			seen <- b.String()
		}
		io.WriteString(c, "HTTP/1.1 302 Odd\x01Reason\r\nLocation: http://elsewhere.example/\r\nConnection: X-Hop\r\nX-Hop: 1\r\n"+
			"Proxy-Authenticate: Basic\r\nProxy-Foo: x\r\nKeep-Alive: timeout=5\r\nX-Keep: yes\r\nContent-Length: 0\r\n\r\n")
	})
	answer := l.send("GET http://user:secret@RAW.example.:8080/a%2Fb?q=1;2#no HTTP/1.1\r\nHost: raw.example:8080\r\nConnection: close\r\n\r\n")
	contains(t, answer, "400 Bad Request")
	answer = l.send("GET http://user:secret@RAW.example.:8080/a%2Fb?q=1;2 HTTP/1.1\r\nHost: raw.example:8080\r\n" +
		"Proxy-Authorization: Basic c2VjcmV0\r\nProxy-Connection: keep-alive\r\nproxy-x: 1\r\nConnection: X-Drop, close\r\nX-Drop: 1\r\n" +
		"TE: trailers, deflate\r\nUpgrade: h2c\r\nHTTP2-Settings: x\r\nKeep-Alive: 5\r\nX-Keep: yes\r\nAuthorization: Bearer t\r\n\r\n")
	want := "GET /a%2Fb?q=1;2 HTTP/1.1\r\nHost: raw.example:8080\r\nAuthorization: Bearer t\r\nTe: trailers\r\nX-Keep: yes\r\n\r\n"
	if got := <-seen; got != want {
		t.Errorf("the server saw\n%q, want\n%q", got, want)
	}
	contains(t, answer, "HTTP/1.1 302 Odd?Reason\r\n", "Location: http://elsewhere.example/\r\n", "X-Keep: yes\r\n", "Connection: close\r\n")
	for _, gone := range []string{"X-Hop", "Proxy-", "timeout=5"} {
		if strings.Contains(answer, gone) {
			t.Errorf("got %q, want no %s", answer, gone)
		}
	}
}

func TestUpgradeOverPlainHTTP(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{allow: []string{"raw.example"}})
	l.raw("raw.example", 80, func(c net.Conn) {
		br := bufio.NewReader(c)
		req, err := http.ReadRequest(br)
		if err != nil || req.Header.Get("Upgrade") != "websocket" || req.Header.Get("Connection") != "Upgrade" {
			io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
			return
		}
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-Websocket-Accept: x\r\n\r\nahead;")
		io.Copy(c, br)
		io.WriteString(c, ";bye")
	})
	conn := l.dial()
	fmt.Fprint(conn, "GET http://raw.example/ws HTTP/1.1\r\nHost: raw.example\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\nfirst;")
	br := bufio.NewReader(conn)
	resp, err := http.ReadResponse(br, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Sec-Websocket-Accept") != "x" {
		t.Fatalf("got %+v %v", resp, err)
	}
	io.WriteString(conn, "second")
	conn.CloseWrite()
	if rest, _ := io.ReadAll(br); string(rest) != "ahead;first;second;bye" {
		t.Errorf("got %q", rest)
	}
	ev := l.events.wait(t, func(e event.Event) bool { return e.Action == event.Allowed })
	if ev.Up != int64(len("first;second")) || ev.Down != int64(len("ahead;first;second;bye")) {
		t.Errorf("got event %+v", ev)
	}
}

// An upgrade that nobody asked for must not become a tunnel.
func TestUnaskedUpgrade(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{allow: []string{"raw.example"}})
	l.raw("raw.example", 80, func(c net.Conn) {
		http.ReadRequest(bufio.NewReader(c))
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
	})
	contains(t, l.send("GET http://raw.example/ HTTP/1.1\r\nHost: raw.example\r\nConnection: close\r\n\r\n"), "502", egress.CodeBadUpstream)
}

func TestConnectCarriesEverything(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{allow: []string{"raw.example"}})
	l.raw("raw.example", 22, func(c net.Conn) {
		io.WriteString(c, "SSH-2.0-first\r\n") // the server speaks first
		b, _ := io.ReadAll(c)
		fmt.Fprintf(c, "you said %q", b) // after the client's half-close
	})
	conn := l.dial()
	io.WriteString(conn, "CONNECT raw.example:22 HTTP/1.1\r\nHost: raw.example:22\r\n\r\nahead ")
	br := bufio.NewReader(conn)
	resp, err := http.ReadResponse(br, &http.Request{Method: "CONNECT"})
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp, err)
	}
	if line, _ := br.ReadString('\n'); line != "SSH-2.0-first\r\n" {
		t.Errorf("got %q", line)
	}
	io.WriteString(conn, "and after")
	conn.CloseWrite()
	if rest, err := io.ReadAll(br); string(rest) != `you said "ahead and after"` || err != nil {
		t.Errorf("got %q %v", rest, err)
	}
	ev := l.events.wait(t, func(e event.Event) bool { return e.Action == event.Allowed })
	if ev.Up != 15 || ev.Down != int64(len("SSH-2.0-first\r\n"+`you said "ahead and after"`)) || ev.Target != "raw.example:22" || ev.Rule != "raw.example" {
		t.Errorf("got event %+v", ev)
	}
}

// A server's half-close must reach the client while it still sends.
func TestServerClosesFirst(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{allow: []string{"raw.example"}})
	got := make(chan string, 1)
	l.raw("raw.example", 9, func(c net.Conn) {
		io.WriteString(c, "bye")
		c.(*net.TCPConn).CloseWrite()
		b, _ := io.ReadAll(c)
		got <- string(b)
	})
	conn, br := l.connect("raw.example:9")
	if b, err := io.ReadAll(br); string(b) != "bye" || err != nil {
		t.Fatalf("got %q %v", b, err)
	}
	io.WriteString(conn, "still here")
	conn.Close()
	if g := <-got; g != "still here" {
		t.Errorf("the server got %q", g)
	}
}

func TestBigTransfersArriveWhole(t *testing.T) {
	t.Parallel()
	const size = 24 << 20
	l := newLab(t, labConfig{allow: []string{"raw.example", "web.example"}})
	l.raw("raw.example", 1, func(c net.Conn) { io.Copy(c, c) })
	l.web("web.example", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, io.LimitReader(&pattern{}, size)) }))
	conn, br := l.connect("raw.example:1")
	conn.SetDeadline(time.Now().Add(2 * time.Minute)) // a busy machine takes long
	go func() {
		io.Copy(conn, io.LimitReader(&pattern{}, size))
		conn.CloseWrite()
	}()
	comparePattern(t, br, size)
	resp, err := l.client().Get("http://web.example/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	comparePattern(t, resp.Body, size)
}

// pattern is an endless sequence in which every block differs from the next.
type pattern struct{ at int64 }

func (p *pattern) Read(b []byte) (int, error) {
	var word [8]byte
	for i := 0; i < len(b); {
		binary.LittleEndian.PutUint64(word[:], uint64(p.at/8)*0x9e3779b97f4a7c15)
		n := copy(b[i:], word[p.at%8:])
		i, p.at = i+n, p.at+int64(n)
	}
	return len(b), nil
}

func comparePattern(t *testing.T, r io.Reader, size int64) {
	t.Helper()
	want, buf, scratch := &pattern{}, make([]byte, 64<<10), make([]byte, 64<<10)
	var n int64
	var err error
	for err == nil {
		var m int
		m, err = r.Read(buf)
		want.Read(scratch[:m])
		if !bytes.Equal(buf[:m], scratch[:m]) {
			t.Fatalf("bytes differ after %d", n)
		}
		n += int64(m)
	}
	if n != size || !errors.Is(err, io.EOF) {
		t.Errorf("got %d bytes, want %d: %v", n, size, err)
	}
}
