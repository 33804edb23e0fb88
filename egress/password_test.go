package egress_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/net/proxy"

	"pinfold/egress"
)

// lockedLab is a lab whose proxy asks for a password.
func lockedLab(t *testing.T) (*lab, egress.Password) {
	t.Helper()
	l := newLab(t, labConfig{allow: []string{"web.example", "raw.example"}})
	l.web("web.example", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "seen: "+r.Header.Get("Proxy-Authorization"))
	}))
	l.raw("raw.example", 7, func(c net.Conn) { io.Copy(c, c) })
	p := egress.Password{User: "pinfold", Secret: "t:o k/en"}
	l.server = &egress.Server{Decider: l.server.Decider, Dialer: l.server.Dialer, Events: l.events, Password: &p}
	l.addr = serve(t, l.server)
	return l, p
}

func TestPasswordHTTP(t *testing.T) {
	t.Parallel()
	l, p := lockedLab(t)
	right := base64.StdEncoding.EncodeToString([]byte(p.User + ":" + p.Secret))
	wrong := base64.StdEncoding.EncodeToString([]byte(p.User + ":x"))
	for name, c := range map[string]struct {
		fields string
		want   string
	}{
		"none":      {"", "407"},
		"right":     {"Proxy-Authorization: Basic " + right + "\r\n", "200"},
		"any case":  {"proxy-authorization: bAsIc " + right + "\r\n", "200"},
		"wrong":     {"Proxy-Authorization: Basic " + wrong + "\r\n", "407"},
		"two":       {"Proxy-Authorization: Basic " + right + "\r\nProxy-Authorization: Basic " + wrong + "\r\n", "407"},
		"no base64": {"Proxy-Authorization: Basic %%%\r\n", "407"},
		"no colon":  {"Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("pinfold")) + "\r\n", "407"},
		"bearer":    {"Proxy-Authorization: Bearer " + right + "\r\n", "407"},
		"server's":  {"Authorization: Basic " + right + "\r\n", "407"},
	} {
		for _, request := range []string{"GET http://web.example/ HTTP/1.1\r\nHost: web.example\r\nConnection: close\r\n", "CONNECT raw.example:7 HTTP/1.1\r\n"} {
			got := l.send(request + c.fields + "\r\n")
			if status := strings.Fields(got + " - -")[1]; status != c.want {
				t.Errorf("%s: %q: got %s, want %s", name, request, status, c.want)
			}
			if c.want == "407" && !strings.Contains(got, "Proxy-Authenticate: Basic realm=") {
				t.Errorf("%s: no challenge in %q", name, got)
			}
			if strings.Contains(got, "seen: Basic") {
				t.Errorf("%s: the server saw the password", name)
			}
		}
	}
}

// A denied host stays denied, and nothing is told before the password.
func TestPasswordIsNoGrant(t *testing.T) {
	t.Parallel()
	l, p := lockedLab(t)
	right := base64.StdEncoding.EncodeToString([]byte(p.User + ":" + p.Secret))
	if got := l.send("CONNECT denied.example:443 HTTP/1.1\r\nProxy-Authorization: Basic " + right + "\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 403") {
		t.Errorf("got %q", got)
	}
	if got := l.send("CONNECT denied.example:443 HTTP/1.1\r\n\r\n"); !strings.HasPrefix(got, "HTTP/1.1 407") {
		t.Errorf("got %q", got)
	}
}

func TestPasswordSOCKS(t *testing.T) {
	t.Parallel()
	l, p := lockedLab(t)
	for name, c := range map[string]struct{ send, want []byte }{
		"none offered":  {[]byte{5, 1, 0}, []byte{5, 0xff}},
		"wrong":         {[]byte{5, 1, 2, 1, 1, 'x', 1, 'y'}, []byte{5, 2, 1, 1}},
		"empty":         {[]byte{5, 1, 2, 1, 0, 0}, []byte{5, 2, 1, 1}},
		"wrong version": {append([]byte{5, 1, 2, 5, 7}, "pinfold\x08t:o k/en"...), []byte{5, 2, 1, 1}},
		"right":         {append([]byte{5, 2, 0, 2, 1, 7}, "pinfold\x08t:o k/en"...), []byte{5, 2, 1, 0}},
	} {
		if got := l.exchangeBytes(c.send...); !bytes.Equal(got, c.want) {
			t.Errorf("%s: got % x, want % x", name, got, c.want)
		}
	}
	d, err := proxy.SOCKS5("tcp", l.addr, &proxy.Auth{User: p.User, Password: p.Secret}, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := d.Dial("tcp", "raw.example:7")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "hello")
	buf := make([]byte, 5)
	if io.ReadFull(conn, buf); string(buf) != "hello" {
		t.Errorf("got %q", buf)
	}
}

// TestPasswordEnv: the variables carry the password, and everyday programs use it.
func TestPasswordEnv(t *testing.T) {
	t.Parallel()
	l, p := lockedLab(t)
	env := map[string]string{}
	for _, kv := range egress.ProxyEnvAuth(l.addr, p) {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
	}
	u, err := url.Parse(env["HTTPS_PROXY"])
	if err != nil {
		t.Fatal(err)
	}
	if secret, _ := u.User.Password(); u.Host != l.addr || secret != p.Secret || u.User.Username() != p.User {
		t.Errorf("got %v", u)
	}
	if strings.Contains(env["JAVA_TOOL_OPTIONS"], p.User) {
		t.Errorf("Java's options hold a password: %s", env["JAVA_TOOL_OPTIONS"])
	}
	resp, err := (&http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(u), DisableKeepAlives: true}}).Get("http://web.example/")
	if got := body(t, resp, err); got != "seen: " {
		t.Errorf("got %q", got)
	}
	if curl, err := exec.LookPath("curl"); err == nil {
		for _, proxy := range []string{env["http_proxy"], "socks5h://" + env[egress.ProxyVariable]} {
			cmd := exec.CommandContext(t.Context(), curl, "-sS", "-x", proxy, "http://web.example/")
			if out, err := cmd.CombinedOutput(); string(out) != "seen: " {
				t.Errorf("curl -x %s: %s, %v", proxy, out, err)
			}
		}
	}
	var out bytes.Buffer
	err = egress.Connect(t.Context(), env[egress.ProxyVariable], "raw.example", "7", strings.NewReader("ping"), &out)
	if err != nil || out.String() != "ping" {
		t.Errorf("connect: %q, %v", out.String(), err)
	}
	if err := egress.Connect(t.Context(), l.addr, "raw.example", "7", strings.NewReader(""), io.Discard); err == nil {
		t.Error("connect without the password worked")
	}
}
