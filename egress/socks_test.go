package egress_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/net/proxy"

	"pinfold/egress"
)

// exchangeBytes sends raw bytes and returns everything that comes back.
func (l *lab) exchangeBytes(b ...byte) []byte { return []byte(l.send(string(b))) }

func TestSOCKSReplies(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{allow: []string{"raw.example", "refused.example"}})
	l.raw("raw.example", 7, func(c net.Conn) { io.Copy(c, c) })
	dead := listen(t)
	dead.Close()
	l.host("refused.example", 7, dead.Addr().String())
	name := append([]byte{3, 11}, "raw.example"...)
	request := func(head []byte, rest ...byte) []byte { return append(append([]byte{5, 1, 0}, head...), rest...) }
	tests := map[string]struct{ send, want []byte }{
		"no acceptable method": {[]byte{5, 1, 2}, []byte{5, 0xff}},
		"no methods":           {[]byte{5, 0}, []byte{5, 0xff}},
		"bind":                 {request([]byte{5, 2, 0}, append(name, 0, 7)...), []byte{5, 0, 5, 7, 0, 1, 0, 0, 0, 0, 0, 0}},
		"udp associate":        {request([]byte{5, 3, 0}, append(name, 0, 7)...), []byte{5, 0, 5, 7, 0, 1, 0, 0, 0, 0, 0, 0}},
		"command 0":            {request([]byte{5, 0, 0}, append(name, 0, 7)...), []byte{5, 0, 5, 7, 0, 1, 0, 0, 0, 0, 0, 0}},
		"bad address type":     {request([]byte{5, 1, 0}, 2, 1, 2, 3, 4, 0, 7), []byte{5, 0, 5, 8, 0, 1, 0, 0, 0, 0, 0, 0}},
		"bad version":          {request([]byte{4, 1, 0}, append(name, 0, 7)...), []byte{5, 0, 5, 1, 0, 1, 0, 0, 0, 0, 0, 0}},
		"empty name":           {request([]byte{5, 1, 0}, 3, 0, 0, 7), []byte{5, 0, 5, 2, 0, 1, 0, 0, 0, 0, 0, 0}},
		"nul in name":          {request([]byte{5, 1, 0}, append(append([]byte{3, 12}, "raw.example\x00"...), 0, 7)...), []byte{5, 0, 5, 2, 0, 1, 0, 0, 0, 0, 0, 0}},
		"refused":              {request([]byte{5, 1, 0}, append(append([]byte{3, 15}, "refused.example"...), 0, 7)...), []byte{5, 0, 5, 5, 0, 1, 0, 0, 0, 0, 0, 0}},
		"bytes ahead":          {request([]byte{5, 1, 0}, append(name, 0, 7, 'h', 'i')...), []byte{5, 0, 5, 0, 0, 1, 0, 0, 0, 0, 0, 0, 'h', 'i'}},
		"socks4":               {[]byte{4, 1, 0, 7, 203, 0, 113, 1, 'u', 0}, []byte{0, 0x5b, 0, 0, 0, 0, 0, 0}},
		"socks4a":              {append([]byte{4, 1, 0, 7, 0, 0, 0, 1, 'u', 0}, "raw.example\x00"...), []byte{0, 0x5b, 0, 0, 0, 0, 0, 0}},
	}
	for name, tt := range tests {
		if got := l.exchangeBytes(tt.send...); string(got) != string(tt.want) {
			t.Errorf("%s: got % x, want % x", name, got, tt.want)
		}
	}
}

// An independent client: x/net's.
func TestXNetProxyClient(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{allow: []string{"raw.example"}})
	l.raw("raw.example", 7, func(c net.Conn) { io.Copy(c, c) })
	d, err := proxy.SOCKS5("tcp", l.addr, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := d.(proxy.ContextDialer).DialContext(t.Context(), "tcp", "raw.example:7")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "hello")
	buf := make([]byte, 5)
	if io.ReadFull(conn, buf); string(buf) != "hello" {
		t.Errorf("got %q", buf)
	}
	if _, err := d.Dial("tcp", "denied.example:7"); err == nil || !strings.Contains(err.Error(), "not allowed by ruleset") {
		t.Errorf("got %v", err)
	}
}

// curl, where it is installed, by every protocol it knows of us.
func TestCurl(t *testing.T) {
	t.Parallel()
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("no curl")
	}
	l := webLab(t, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %d", r.Method, r.Host, len(b))
	})
	run := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), curl, append([]string{"-sS", "-m", "10", "-q"}, args...)...)
		cmd.Env = []string{"PATH=/usr/bin:/bin"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			return string(out) + err.Error()
		}
		return string(out)
	}
	big := strings.Repeat("x", 300000)
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"http":           {[]string{"-x", "http://" + l.addr, "http://web.example/"}, "GET web.example 0"},
		"http upload":    {[]string{"-x", "http://" + l.addr, "-d", big[:100000], "http://web.example/"}, "POST web.example 100000"},
		"http chunked":   {[]string{"-x", "http://" + l.addr, "-H", "Transfer-Encoding: chunked", "-d", big[:100000], "http://web.example/"}, "POST web.example 100000"},
		"http head":      {[]string{"-x", "http://" + l.addr, "-I", "http://web.example/"}, "HTTP/1.1 200 OK"},
		"two requests":   {[]string{"-x", "http://" + l.addr, "http://web.example/", "http://web.example/"}, "GET web.example 0GET web.example 0"},
		"http/1.0":       {[]string{"-x", "http://" + l.addr, "-0", "http://web.example/"}, "GET web.example 0"},
		"user names":     {[]string{"-x", "http://u:p@" + l.addr, "http://a:b@web.example/"}, "GET web.example 0"},
		"connect":        {[]string{"-p", "-x", "http://" + l.addr, "http://web.example/"}, "GET web.example 0"},
		"socks5h":        {[]string{"-x", "socks5h://" + l.addr, "http://web.example/"}, "GET web.example 0"},
		"socks5 user":    {[]string{"-x", "socks5h://u:p@" + l.addr, "http://web.example/"}, "GET web.example 0"},
		"socks4a":        {[]string{"-x", "socks4a://" + l.addr, "http://web.example/"}, "ailed"},
		"denied":         {[]string{"-x", "http://" + l.addr, "http://denied.example/"}, "not_listed"},
		"denied connect": {[]string{"-x", "http://" + l.addr, "https://denied.example/"}, "403"},
		"denied socks":   {[]string{"-x", "socks5h://" + l.addr, "http://denied.example/"}, "(97)"},
	} {
		if got := run(tt.args...); !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}

func TestConnectRelay(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{allow: []string{"raw.example", "[2001:db8::7]"}})
	l.raw("raw.example", 22, func(c net.Conn) {
		io.WriteString(c, "SSH-2.0-x\n")
		b, _ := io.ReadAll(c)
		fmt.Fprintf(c, "<%s>", b)
	})
	l.net.route("[2001:db8::7]:22", l.net.routes["203.0.113.1:22"])
	for _, host := range []string{"raw.example", "RAW.example.", "2001:db8::7", "[2001:db8::7]"} {
		var out strings.Builder
		if err := egress.Connect(t.Context(), l.addr, host, "22", strings.NewReader("key exchange"), &out); err != nil {
			t.Error(err)
		}
		if got := out.String(); got != "SSH-2.0-x\n<key exchange>" {
			t.Errorf("%s: got %q", host, got)
		}
	}
	var out strings.Builder
	err := egress.Connect(t.Context(), l.addr, "denied.example", "22", strings.NewReader(""), &out)
	if err == nil || !strings.Contains(err.Error(), `add "denied.example:22" to network.allow`) || out.Len() != 0 {
		t.Errorf("got %v %q", err, out.String())
	}
	for _, bad := range [][2]string{{"a b", "22"}, {"x", "0"}, {"x", "ssh"}, {"", "22"}, {"x\r\ny", "22"}} {
		if err := egress.Connect(t.Context(), l.addr, bad[0], bad[1], strings.NewReader(""), &out); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	r, w := io.Pipe()
	go func() { done <- egress.Connect(ctx, l.addr, "raw.example", "22", r, io.Discard) }()
	io.WriteString(w, "x")
	cancel()
	<-done
	w.Close()
}

func TestProxyEnv(t *testing.T) {
	t.Parallel()
	env := egress.ApplyEnv([]string{"A=1", "http_proxy=http://corp:3128", "JAVA_TOOL_OPTIONS=-Xmx1g", "WS_PROXY=x", "B=2=3"},
		append(egress.ProxyEnv("127.0.0.1:3128"), egress.SSHEnv("/opt/my tools/100%/pinfold")...))
	want := map[string]string{
		"A": "1", "B": "2=3", "http_proxy": "http://127.0.0.1:3128", "HTTPS_PROXY": "http://127.0.0.1:3128", "https_proxy": "http://127.0.0.1:3128",
		"HTTP_PROXY": "http://127.0.0.1:3128", "all_proxy": "http://127.0.0.1:3128", "ALL_PROXY": "http://127.0.0.1:3128",
		"ftp_proxy": "socks5h://127.0.0.1:3128", "FTP_PROXY": "socks5h://127.0.0.1:3128",
		"NO_PROXY": "localhost,127.0.0.1,::1", "no_proxy": "localhost,127.0.0.1,::1", "NODE_USE_ENV_PROXY": "1",
		"JAVA_TOOL_OPTIONS": "-Xmx1g -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=3128 -Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=3128",
		"PINFOLD_PROXY":     "127.0.0.1:3128", "RSYNC_PROXY": "127.0.0.1:3128",
	}
	got := map[string]string{}
	for _, kv := range env {
		name, value, _ := strings.Cut(kv, "=")
		if _, twice := got[name]; twice {
			t.Errorf("%s is set twice", name)
		}
		got[name] = value
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s: got %q, want %q", name, got[name], value)
		}
	}
	if _, ok := got["WS_PROXY"]; ok {
		t.Error("WS_PROXY is passed on")
	}
	if got := egress.ApplyEnv([]string{"GIT_SSH_COMMAND=ssh -i k", "NO_PROXY=*"}, egress.SSHEnv("/p")); got[0] != "GIT_SSH_COMMAND=ssh -i k" || len(got) != 2 {
		t.Errorf("got %q, want the caller's own ssh and no more", got)
	}
	// What ssh would run, seen by sh.
	script := `eval "set -- $GIT_SSH_COMMAND"; printf '%s|' "$@"`
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
	cmd.Env = []string{"GIT_SSH_COMMAND=" + got["GIT_SSH_COMMAND"]}
	out, err := cmd.Output()
	if w := `ssh|-o|ProxyCommand='/opt/my tools/100%%/pinfold' connect %h %p|`; err != nil || string(out) != w {
		t.Errorf("got %s %v, want %s", out, err, w)
	}
}
