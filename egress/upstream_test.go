package egress_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pinfold/egress"
	"pinfold/event"
)

// parent is a proxy of another make, kept simple: it records what it is asked
// for and leads everything to one server.
type parent struct {
	asked chan string
	to    string
	auth  string
}

func (p *parent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.asked <- r.Method + " " + r.RequestURI + " " + r.Header.Get("Proxy-Authorization")
	if p.auth != "" && r.Header.Get("Proxy-Authorization") != p.auth {
		w.WriteHeader(http.StatusProxyAuthRequired)
		return
	}
	if r.Method != http.MethodConnect {
		fmt.Fprintf(w, "parent served %s", r.URL)
		return
	}
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	conn, rw, _ := w.(http.Hijacker).Hijack()
	defer conn.Close()
	defer server.Close()
	io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-Parent: 1\r\n\r\n")
	go func() {
		io.Copy(server, rw)
		server.(*net.TCPConn).CloseWrite()
	}()
	io.Copy(conn, server)
}

// greeter speaks first, then echoes.
func greeter(t *testing.T) string {
	return rawServer(t, func(c net.Conn) {
		io.WriteString(c, "hi;")
		io.Copy(c, c)
	})
}

func parentLab(t *testing.T, value string, env map[string]string, tlsConfig *tls.Config) *lab {
	t.Helper()
	up, err := egress.ParseUpstream(value, func(n string) string { return env[n] })
	if err != nil {
		t.Fatal(err)
	}
	if up != nil {
		up.TLS = tlsConfig
	}
	return newLab(t, labConfig{allow: []string{"far.example", "near.example", "10.9.9.9"}, upstream: up})
}

func echoThrough(t *testing.T, l *lab, target string) {
	t.Helper()
	conn, br := l.connect(target)
	io.WriteString(conn, "hello")
	conn.CloseWrite()
	if got, err := io.ReadAll(br); string(got) != "hi;hello" || err != nil {
		t.Errorf("got %q %v", got, err)
	}
}

func TestHTTPParent(t *testing.T) {
	t.Parallel()
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("user:pa:ss"))
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			p := &parent{asked: make(chan string, 9), to: greeter(t), auth: basic}
			ts := httptest.NewUnstartedServer(p)
			if ts.Start(); scheme == "https" {
				ts.Close()
				ts = httptest.NewUnstartedServer(p)
				ts.StartTLS()
			}
			t.Cleanup(ts.Close)
			var cfg *tls.Config
			if scheme == "https" {
				pool := x509.NewCertPool()
				pool.AddCert(ts.Certificate())
				cfg = &tls.Config{RootCAs: pool}
			}
			l := parentLab(t, scheme+"://user:pa%3Ass@"+ts.Listener.Addr().String(), nil, cfg)
			echoThrough(t, l, "FAR.example.:8443")
			if got := <-p.asked; got != "CONNECT far.example:8443 "+basic {
				t.Errorf("the parent was asked %q", got)
			}
			for range 2 {
				resp, err := l.client().Get("http://far.example/x?y")
				if got := body(t, resp, err); got != "parent served http://far.example/x?y" {
					t.Errorf("got %q", got)
				}
				if got := <-p.asked; got != "GET http://far.example/x?y "+basic {
					t.Errorf("the parent was asked %q", got)
				}
			}
			contains(t, l.send("CONNECT denied.example:8443 HTTP/1.1\r\n\r\n"), "403")
			contains(t, l.send("GET http://10.0.0.1/ HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n"), "403")
			if n := len(p.asked) + len(l.names.lookups()); n != 0 {
				t.Errorf("a denied name went out")
			}
			for _, ev := range l.events.all() {
				if strings.Contains(fmt.Sprint(ev), "pa:ss") {
					t.Errorf("an event tells the password: %+v", ev)
				}
			}
		})
	}
}

func TestParentWantsOtherCredentials(t *testing.T) {
	t.Parallel()
	p := &parent{asked: make(chan string, 9), to: greeter(t), auth: "Basic other"}
	ts := httptest.NewServer(p)
	t.Cleanup(ts.Close)
	l := parentLab(t, "http://user:secretword@"+ts.Listener.Addr().String(), nil, nil)
	for _, send := range []string{"CONNECT far.example:8443 HTTP/1.1\r\n\r\n", "GET http://far.example/ HTTP/1.1\r\nHost: far.example\r\nConnection: close\r\n\r\n"} {
		answer := l.send(send)
		contains(t, answer, "502 Bad Gateway", egress.CodeUpstream, "network.upstream")
		if strings.Contains(answer, "secretword") {
			t.Errorf("the answer tells the password: %q", answer)
		}
	}
}

func TestSOCKSParent(t *testing.T) {
	t.Parallel()
	to := greeter(t)
	asked := make(chan string, 9)
	addr := rawServer(t, func(c net.Conn) {
		br := bufio.NewReader(c)
		head := make([]byte, 4)
		io.ReadFull(br, head) // 5 2 0 2
		c.Write([]byte{5, 2})
		io.ReadFull(br, head[:2])
		user := make([]byte, head[1])
		io.ReadFull(br, user)
		n, _ := br.ReadByte()
		pass := make([]byte, n)
		io.ReadFull(br, pass)
		c.Write([]byte{1, 0})
		io.ReadFull(br, head) // 5 1 0 3
		n, _ = br.ReadByte()
		host := make([]byte, int(n)+2)
		io.ReadFull(br, host)
		asked <- fmt.Sprintf("%s:%s %d %s:%d", user, pass, head[3], host[:n], int(host[n])<<8|int(host[n+1]))
		c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
		server, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		defer server.Close()
		go func() {
			io.Copy(server, br)
			server.(*net.TCPConn).CloseWrite()
		}()
		io.Copy(c, server)
	})
	l := parentLab(t, "socks5h://me:secretword@"+addr, nil, nil)
	echoThrough(t, l, "far.example:22")
	if got := <-asked; got != "me:secretword 3 far.example:22" {
		t.Errorf("the parent was asked %q", got)
	}
	l.send("GET http://far.example/ HTTP/1.1\r\nHost: far.example\r\n\r\n")
	if got := <-asked; got != "me:secretword 3 far.example:80" {
		t.Errorf("the parent was asked %q", got)
	}
}

// What the no-proxy rules except is dialled directly, with every check.
func TestNoProxyRules(t *testing.T) {
	t.Parallel()
	p := &parent{asked: make(chan string, 9), to: greeter(t)}
	ts := httptest.NewServer(p)
	t.Cleanup(ts.Close)
	host := ts.Listener.Addr().String()
	for name, l := range map[string]*lab{
		"env":   parentLab(t, "env", map[string]string{"https_proxy": "http://" + host, "NO_PROXY": "near.example,10.0.0.0/8"}, nil),
		"url":   parentLab(t, "http://"+host+"?no_proxy="+url.QueryEscape("near.example, 10.0.0.0/8"), nil, nil),
		"all":   parentLab(t, "env", map[string]string{"ALL_PROXY": host, "no_proxy": "near.example,10.0.0.0/8"}, nil),
		"value": parentLab(t, "env:MY_PROXY", map[string]string{"MY_PROXY": "http://" + host + "/?no_proxy=near.example,10.0.0.0/8"}, nil),
	} {
		l.names.set("near.example", "203.0.113.5", "127.0.0.1")
		l.net.route("203.0.113.5:8443", p.to)
		l.net.route("10.9.9.9:8443", p.to)
		echoThrough(t, l, "near.example:8443")
		echoThrough(t, l, "10.9.9.9:8443")
		if len(p.asked) != 0 {
			t.Errorf("%s: the parent was asked %q", name, <-p.asked)
		}
		contains(t, l.send("CONNECT near.example:8443 HTTP/1.1\r\n\r\n"), "403", egress.CodeLoopback)
		echoThrough(t, l, "far.example:8443")
		if len(p.asked) != 1 {
			t.Errorf("%s: the parent was asked %d times, want once", name, len(p.asked))
		}
		<-p.asked
	}
}

func TestParseUpstream(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "proxy url")
	if err := os.WriteFile(file, []byte("http://u:secretword@proxy.example:3128\nmore\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"P": "https://u:secretword@proxy.example"}
	for value, want := range map[string]string{
		"http://u:secretword@proxy.example:3128": "http://proxy.example:3128",
		"https://proxy.example":                  "https://proxy.example:443",
		"socks5://proxy.example":                 "socks5://proxy.example:1080",
		"socks5h://[2001:db8::1]":                "socks5://[2001:db8::1]:1080",
		"proxy.example:3128":                     "http://proxy.example:3128",
		"file:" + file:                           "http://proxy.example:3128",
		"file://" + file:                         "http://proxy.example:3128",
		"env:P":                                  "https://proxy.example:443",
		"env":                                    "",
		"":                                       "",
	} {
		up, err := egress.ParseUpstream(value, func(n string) string { return env[n] })
		if err != nil || up.String() != want {
			t.Errorf("%s: got %q %v, want %q", value, up, err, want)
		}
	}
	for _, value := range []string{"ftp://u:secretword@x", "http://", "http://u:secretword@", "http://u:secretword@x:y:z", "http://u:secret\x01word@x", "env:MISSING", "file:/nowhere/secret", "://"} {
		if up, err := egress.ParseUpstream(value, func(string) string { return "" }); err == nil {
			t.Errorf("%q: got %v, want an error", value, up)
		} else if strings.Contains(err.Error(), "word") {
			t.Errorf("%q: the error tells the password: %v", value, err)
		}
	}
}

func TestParentIsGone(t *testing.T) {
	t.Parallel()
	ln := listen(t)
	ln.Close()
	l := parentLab(t, "http://"+ln.Addr().String(), nil, nil)
	for _, send := range []string{"CONNECT far.example:8443 HTTP/1.1\r\n\r\n", "GET http://far.example/ HTTP/1.1\r\nHost: far.example\r\n\r\n"} {
		contains(t, l.send(send), "502", egress.CodeUpstream, "connection refused")
	}
	l.events.wait(t, func(e event.Event) bool { return e.Reason == egress.CodeUpstream && e.Action == event.Noticed })
}
