package egress_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"pinfold/egress"
)

// attacks are requests that no client means well by, with what must come
// back. ALLOWED stands for the allowed host.
var attacks = []struct {
	name, send, want string
}{
	{"cl and te", "POST http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
	{"te and cl", "POST http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", "400"},
	{"two lengths", "POST http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\nabcde", "400"},
	{"equal lengths", "POST http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nabcde", "400"},
	{"length list", "POST http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nContent-Length: 5, 5\r\n\r\nabcde", "400"},
	{"signed length", "POST http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nContent-Length: +5\r\n\r\nabcde", "400"},
	{"hex length", "POST http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nContent-Length: 0x5\r\n\r\nabcde", "400"},
	{"empty length", "POST http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nContent-Length: \r\n\r\n", "400"},
	{"huge length", "POST http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nContent-Length: 99999999999999999999\r\n\r\n", "400"},
	{"te blank before colon", "POST http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", "400"},
	{"te xchunked", "POST http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", "400"},
	{"te twice", "POST http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
	{"te list", "POST http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "400"},
	{"te identity", "POST http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nTransfer-Encoding: identity\r\n\r\n", "400"},
	{"te in 1.0", "POST http://ALLOWED/ HTTP/1.0\r\nHost: ALLOWED\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"},
	{"te vertical tab", "POST http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", "400"},
	{"bad chunk", "PUT http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n", "400"},
	{"host disagrees", "GET http://ALLOWED/ HTTP/1.1\r\nHost: denied.example\r\n\r\n", "400"},
	{"host port disagrees", "GET http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED:81\r\n\r\n", "400"},
	{"host twice", "GET http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nHost: ALLOWED\r\n\r\n", "400"},
	{"no host", "GET http://ALLOWED/ HTTP/1.1\r\n\r\n", "400"},
	{"host with userinfo", "GET http://ALLOWED/ HTTP/1.1\r\nHost: a@ALLOWED\r\n\r\n", "400"},
	{"empty host", "GET http://ALLOWED/ HTTP/1.1\r\nHost:\r\n\r\n", "400"},
	{"folded field", "GET http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nX: a\r\n b\r\n\r\n", "400"},
	{"field without colon", "GET http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nX\r\n\r\n", "400"},
	{"empty field name", "GET http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\n: x\r\n\r\n", "400"},
	{"nul in value", "GET http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nX: a\x00b\r\n\r\n", "400"},
	{"bare lf", "GET http://ALLOWED/ HTTP/1.1\nHost: ALLOWED\n\n", "400"},
	{"one bare lf", "GET http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\nX: y\r\n\r\n", "400"},
	{"bare cr", "GET http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\rX: y\r\n\r\n", "400"},
	{"leading blank", " GET http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\n\r\n", "400"},
	{"two blanks", "GET  http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\n\r\n", "400"},
	{"tab", "GET\thttp://ALLOWED/\tHTTP/1.1\r\nHost: ALLOWED\r\n\r\n", "400"},
	{"no version", "GET http://ALLOWED/\r\n\r\n", "400"},
	{"http2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "505"},
	{"http 0.9", "GET http://ALLOWED/ HTTP/0.9\r\n\r\n", "505"},
	{"tls", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "400"},
	{"origin form", "GET / HTTP/1.1\r\nHost: ALLOWED\r\n\r\n", "400 Bad Request|pinfold's proxy, not a web server|not_a_proxy_request"},
	{"origin form with url", "GET /?u=http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\n\r\n", "not_a_proxy_request"},
	{"double slash", "GET //ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\n\r\n", "not_a_proxy_request"},
	{"asterisk", "OPTIONS * HTTP/1.1\r\nHost: ALLOWED\r\n\r\n", "not_a_proxy_request"},
	{"pac", "GET /proxy.pac HTTP/1.1\r\nHost: x\r\n\r\n", "not_a_proxy_request"},
	{"https url", "GET https://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\n\r\n", "400 Bad Request|https goes through CONNECT"},
	{"ftp url", "GET ftp://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\n\r\n", "400 Bad Request|only http URLs"},
	{"file url", "GET file:///etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", "400"},
	{"no authority", "GET http:///x HTTP/1.1\r\nHost: ALLOWED\r\n\r\n", "400"},
	{"trace", "TRACE http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\n\r\n", "405"},
	{"user name like a host", "GET http://ALLOWED@denied.example/ HTTP/1.1\r\nHost: denied.example\r\n\r\n", "403"},
	{"user name with port", "GET http://ALLOWED:80@denied.example/ HTTP/1.1\r\nHost: denied.example\r\n\r\n", "403"},
	{"backslash", "GET http://denied.example\\@ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\n\r\n", "400"},
	{"fragment", "GET http://denied.example#@ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\n\r\n", "400"},
	{"query", "GET http://denied.example?@ALLOWED/ HTTP/1.1\r\nHost: denied.example\r\n\r\n", "403"},
	{"escaped dot", "GET http://denied%2eexample/ HTTP/1.1\r\nHost: ALLOWED\r\n\r\n", "400"},
	{"port zero", "GET http://ALLOWED:0/ HTTP/1.1\r\nHost: ALLOWED:0\r\n\r\n", "400"},
	{"port too big", "GET http://ALLOWED:65616/ HTTP/1.1\r\nHost: ALLOWED:65616\r\n\r\n", "400"},
	{"port with zeros", "GET http://ALLOWED:0080/ HTTP/1.1\r\nHost: ALLOWED:0080\r\n\r\n", "400"},
	{"expectation", "GET http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nExpect: something\r\n\r\n", "417"},
	{"connect nul", "CONNECT denied.example\x00.ALLOWED:443 HTTP/1.1\r\nHost: ALLOWED\r\n\r\n", "400"},
	{"connect escaped nul", "CONNECT denied.example%00.ALLOWED:443 HTTP/1.1\r\n\r\n", "400"},
	{"connect cr lf", "CONNECT denied.example\r\n.ALLOWED:443 HTTP/1.1\r\nHost: ALLOWED\r\n\r\n", "400"},
	{"connect blank", "CONNECT denied.example .ALLOWED:443 HTTP/1.1\r\n\r\n", "400"},
	{"connect tab", "CONNECT denied.example\t.ALLOWED:443 HTTP/1.1\r\n\r\n", "400"},
	{"connect slash", "CONNECT denied.example/.ALLOWED:443 HTTP/1.1\r\n\r\n", "400"},
	{"connect hash", "CONNECT denied.example#.ALLOWED:443 HTTP/1.1\r\n\r\n", "400"},
	{"connect query", "CONNECT denied.example?.ALLOWED:443 HTTP/1.1\r\n\r\n", "400"},
	{"connect backslash", "CONNECT denied.example\\.ALLOWED:443 HTTP/1.1\r\n\r\n", "400"},
	{"connect comma", "CONNECT ALLOWED,denied.example:443 HTTP/1.1\r\n\r\n", "400"},
	{"connect userinfo", "CONNECT ALLOWED@denied.example:443 HTTP/1.1\r\n\r\n", "400"},
	{"connect url", "CONNECT http://ALLOWED:443 HTTP/1.1\r\n\r\n", "400"},
	{"connect no port", "CONNECT ALLOWED HTTP/1.1\r\n\r\n", "400"},
	{"connect empty port", "CONNECT ALLOWED: HTTP/1.1\r\n\r\n", "400"},
	{"connect wrapped port", "CONNECT ALLOWED:65979 HTTP/1.1\r\n\r\n", "400"},
	{"connect negative port", "CONNECT ALLOWED:-443 HTTP/1.1\r\n\r\n", "400"},
	{"connect odd port", "CONNECT ALLOWED:443@9 HTTP/1.1\r\n\r\n", "400"},
	{"connect service name", "CONNECT ALLOWED:https HTTP/1.1\r\n\r\n", "400"},
	{"connect no host", "CONNECT :443 HTTP/1.1\r\n\r\n", "400"},
	{"connect body", "CONNECT ALLOWED:443 HTTP/1.1\r\nHost: ALLOWED:443\r\nContent-Length: 3\r\n\r\nabc", "400"},
	{"connect host disagrees", "CONNECT ALLOWED:443 HTTP/1.1\r\nHost: denied.example:443\r\n\r\n", "400"},
	{"connect host disagrees by brackets", "CONNECT 2001:db8::1:443 HTTP/1.1\r\nHost: 2001:db8::2:443\r\n\r\n", "400"},
	{"connect host alike", "CONNECT 2001:db8::1:443 HTTP/1.1\r\nHost: 2001:db8::1:443\r\n\r\n", "403 Forbidden|add \"[2001:db8::1]:443\" to network.allow"},
	{"connect long name", "CONNECT " + strings.Repeat("a.", 200) + "example:443 HTTP/1.1\r\n\r\n", "400"},
	{"connect long label", "CONNECT " + strings.Repeat("a", 64) + ".example:443 HTTP/1.1\r\n\r\n", "400"},
	{"connect invalid utf-8", "CONNECT \xff\xfe.example:443 HTTP/1.1\r\n\r\n", "400"},
	{"long line", "GET http://ALLOWED/" + strings.Repeat("a", 20<<10) + " HTTP/1.1\r\nHost: ALLOWED\r\n\r\n", "414"},
	{"endless line", "GET http://ALLOWED/" + strings.Repeat("a", 100<<10), "414"},
	{"long field", "GET http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\nX: " + strings.Repeat("a", 70<<10) + "\r\n\r\n", "431"},
	{"many fields", "GET http://ALLOWED/ HTTP/1.1\r\nHost: ALLOWED\r\n" + strings.Repeat("X: a\r\n", 12000) + "\r\n", "431"},
	{"binary", "\x00\x01\x02\x03\r\n\r\n", "400"},
	{"socks6", "\x06\x01\x00\r\n\r\n", "400"},
}

func TestAttacksOnHTTP(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{allow: []string{"allowed.example"}})
	reached := make(chan string, 100)
	l.raw("allowed.example", 80, func(c net.Conn) {
		if req, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			reached <- req.Method
			io.Copy(io.Discard, req.Body)
		}
	})
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			answer := l.send(strings.ReplaceAll(a.send, "ALLOWED", "allowed.example"))
			status, rest, _ := strings.Cut(a.want, "|")
			if !strings.HasPrefix(answer, "HTTP/1.1 "+status) && !strings.Contains(answer, status) {
				t.Errorf("got %q, want %s", clip(answer), status)
			}
			for part := range strings.SplitSeq(rest, "|") {
				contains(t, answer, part)
			}
			if strings.Count(answer, "Content-Length: ") != 1 {
				t.Errorf("got more than one answer: %q", clip(answer))
			}
			select {
			case m := <-reached:
				if m != "PUT" { // the bad chunk, whose head is good
					t.Errorf("the server was reached by %s", m)
				}
			default:
			}
		})
	}
	if asked := l.names.lookups(); len(asked) != 1 { // the one of the bad chunk
		t.Errorf("looked up %q", asked)
	}
}

// A request head in many pieces, or a byte at a time, is one request.
func TestHeadInPieces(t *testing.T) {
	t.Parallel()
	l := webLab(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%d", len(r.Header.Get("X"))) })
	for _, size := range []int{1, 5000, 30000, 60000} {
		conn := l.dial()
		br := bufio.NewReader(conn)
		text := fmt.Sprintf("\r\nGET http://web.example/ HTTP/1.1\r\nHost: web.example\r\nX: %s\r\n\r\n", strings.Repeat("x", size))
		for range 2 { // the second on the grown buffer
			for piece := 0; piece < len(text); piece += 1 + size/7 {
				io.WriteString(conn, text[piece:min(len(text), piece+1+size/7)])
			}
			resp, err := http.ReadResponse(br, nil)
			if got := body(t, resp, err); got != fmt.Sprint(size) {
				t.Errorf("%d bytes: got %q", size, got)
			}
		}
		conn.Close()
	}
}

// Bytes that a client sends behind the head of a CONNECT reach the server
// even when the head needed a bigger buffer.
func TestBytesAheadBehindALongHead(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{allow: []string{"raw.example"}})
	l.raw("raw.example", 7, func(c net.Conn) { io.Copy(c, c) })
	for _, pad := range []int{0, 4000, 4090, 10000, 60000} {
		for _, ahead := range []int{0, 1, 100, 5000, 200000} {
			want := strings.Repeat("y", ahead)
			conn := l.dial()
			go func() {
				fmt.Fprintf(conn, "CONNECT raw.example:7 HTTP/1.1\r\nX: %s\r\n\r\n%s", strings.Repeat("x", pad), want)
				conn.CloseWrite()
			}()
			answer, _ := io.ReadAll(conn)
			if got := strings.TrimPrefix(string(answer), "HTTP/1.1 200 Connection established\r\n\r\n"); got != want {
				t.Errorf("pad %d, ahead %d: got %d bytes", pad, ahead, len(got))
			}
			conn.Close()
		}
	}
}

// rebinding: the second look-up answers with loopback; the first flow must
// use what it was checked with, the second be refused.
func TestNameThatChanges(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{allow: []string{"raw.example"}})
	server := rawServer(t, func(c net.Conn) { io.WriteString(c, "hello") })
	l.net.route("203.0.113.9:7", server)
	l.net.route("127.0.0.1:7", server)
	l.names.set("raw.example", "203.0.113.9", "127.0.0.1")
	_, br := l.connect("raw.example:7")
	if got, _ := io.ReadAll(br); string(got) != "hello" {
		t.Errorf("got %q", got)
	}
	contains(t, l.send("CONNECT raw.example:7 HTTP/1.1\r\n\r\n"), "403", egress.CodeLoopback, `add "127.0.0.1:7" to network.allow`)
	if d := l.net.dials(); len(d) != 1 || d[0].String() != "203.0.113.9:7" {
		t.Errorf("dialled %v", d)
	}
	if n := l.names.lookups(); len(n) != 2 {
		t.Errorf("looked up %q, want once for each flow", n)
	}
}

// A second request on a kept connection to a name that changed meanwhile goes
// to the address that was checked, and no other.
func TestKeptConnectionStaysWhereItWas(t *testing.T) {
	t.Parallel()
	l := webLab(t, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "ok") })
	conn := l.dial()
	br := bufio.NewReader(conn)
	for range 3 {
		io.WriteString(conn, "GET http://web.example/ HTTP/1.1\r\nHost: web.example\r\n\r\n")
		resp, err := http.ReadResponse(br, nil)
		body(t, resp, err)
		l.names.set("web.example", "127.0.0.1")
	}
	if d := l.net.dials(); len(d) != 1 {
		t.Errorf("dialled %v", d)
	}
}
