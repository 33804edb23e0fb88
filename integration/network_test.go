//go:build linux

package integration_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// server is one of ours on the host's loopback; hits counts what arrives.
func server(t *testing.T, answer string) (address string, hits func() int) {
	t.Helper()
	count := make(chan int, 1)
	count <- 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		count <- <-count + 1
		_, _ = io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%s %s %s", answer, r.Method, r.URL.Path)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), func() int { n := <-count; count <- n; return n }
}

func allows(hosts ...string) doc {
	p := workspaceOnly()
	p["network"] = doc{"allow": hosts}
	return p
}

const curl = "curl -sS --max-time 20 --noproxy '' "

func TestAllowedAndDeniedHosts(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	open, _ := server(t, "allowed")
	closed, hits := server(t, "denied")
	res := l.wrap(t, sh(allows(open), curl+"http://"+open+"/a; echo; "+curl+"-p http://"+open+"/b; echo; "+
		curl+"-o /dev/null -w '%{http_code}\\n' http://"+closed+"/c; "+curl+"-p http://"+closed+"/d >/dev/null 2>&1 && echo tunnelled; "+curl+"-o /dev/null -w '%{http_code}\\n' http://denied.example/"))
	if want := "allowed GET /a\nallowed GET /b\n403\n403\n"; res.stdout != want {
		t.Errorf("want %q: %v", want, res)
	}
	if hits() != 0 {
		t.Errorf("the denied server was reached %d times", hits())
	}
	if !strings.Contains(res.stderr, closed) || !strings.Contains(res.stderr, "denied.example") {
		t.Errorf("the closing line doesn't name what was blocked: %v", res)
	}
}

// TestProxyIsTheOnlyWayOut: an address that the policy allows is not reachable
// but through the proxy, and the proxy's listener belongs to the sandbox alone.
func TestProxyIsTheOnlyWayOut(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	open, hits := server(t, "allowed")
	host, port, err := net.SplitHostPort(open)
	must(t, err)
	res := l.wrap(t, launch{policy: allows(open), argv: []string{built.attack, "tcp", host, port}})
	if res.code != exitHeld || hits() != 0 {
		t.Errorf("reached directly: %v", res)
	}
	run := l.start(t, sh(allows(open), "echo $http_proxy > "+l.run+"/proxy.tmp; mv "+l.run+"/proxy.tmp "+l.run+"/proxy; sleep 100"))
	run.await(t, l.run+"/proxy")
	proxy := strings.TrimPrefix(strings.TrimSpace(read(t, l.run+"/proxy")), "http://")
	if c, err := net.Dial("tcp", strings.TrimSuffix(proxy, "/")); err == nil {
		c.Close()
		t.Errorf("the proxy of a sandbox answers at %s on the host", proxy)
	}
}

func TestRebindingAndPrivateAddressesAreRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	open, _ := server(t, "allowed")
	secretServer, hits := server(t, "private")
	_, port, err := net.SplitHostPort(secretServer)
	must(t, err)
	// The name is allowed; the loopback address that it resolves to is not.
	name, err := os.Hostname()
	must(t, err)
	res := l.wrap(t, sh(allows(open, "localhost", name, "localtest.example"), curl+"-o /dev/null -w '%{http_code}\\n' http://localhost:"+port+"/; "+
		curl+"-o /dev/null -w '%{http_code}\\n' http://0x7f.1:"+port+"/; "+curl+"-o /dev/null -w '%{http_code}\\n' 'http://[::ffff:127.0.0.1]:"+port+"/'"))
	if strings.Contains(res.stdout, "200") || hits() != 0 {
		t.Errorf("a loopback service was reached through an allowed name: %v", res)
	}
}

func TestManyConnectionsAtOnce(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	open, hits := server(t, "allowed")
	res := l.wrap(t, sh(allows(open), "i=0; while [ $i -lt 60 ]; do "+curl+"-o /dev/null -w '%{http_code}\\n' http://"+open+"/$i & i=$((i+1)); done; wait"))
	if got := strings.Count(res.stdout, "200\n"); got != 60 || hits() != 60 {
		t.Errorf("%d of 60 answered, %d arrived: %v", got, hits(), res)
	}
}

// TestParentProxy: everything goes through the operator's own proxy, less what
// its rules except, and its password stays outside.
func TestParentProxy(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	const password = "pa55word"
	var asked sync.Map
	parent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, pass, ok := (&http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}).BasicAuth()
		if asked.Store(r.RequestURI, true); !ok || user != "me" || pass != password {
			w.WriteHeader(http.StatusProxyAuthRequired)
			return
		}
		fmt.Fprint(w, "by the parent ")
	}))
	t.Cleanup(parent.Close)
	direct, _ := server(t, "directly")
	url := "http://me:" + password + "@" + parent.Listener.Addr().String()
	write(t, l.root+"/proxy", url+"?no_proxy=127.0.0.1\n", 0o600)
	for upstream, env := range map[string][]string{
		"env": {"HTTP_PROXY=" + url, "NO_PROXY=127.0.0.1"}, "env:CORP": {"CORP=" + url + "?no_proxy=127.0.0.1"}, "file:" + l.root + "/proxy": nil, "": nil,
	} {
		p := allows("far.example", direct)
		p["network"].(doc)["upstream"] = upstream
		if upstream == "" { // the control: nobody else knows that name
			p = allows("far.example", direct)
		}
		c := sh(p, curl+"-w '%{http_code} ' -o out http://far.example/; cat out; "+curl+"http://"+direct+"/; "+curl+"-o /dev/null -w ' %{http_code}' http://near.example/; env", "--record", l.root+"/record-"+filepath.Base(upstream))
		c.env = env
		res := l.wrap(t, c)
		want := "200 by the parent directly GET / 403"
		if upstream == "" {
			want = "502 "
		}
		if res.code != 0 || !strings.HasPrefix(res.stdout, want) || strings.Contains(res.stdout+res.stderr+read(t, l.root+"/record-"+filepath.Base(upstream)+"/plan.json"), password) {
			t.Errorf("%q: wanted %q and no password: %v", upstream, want, res)
		}
	}
	if _, denied := asked.Load("http://near.example/"); denied {
		t.Error("the parent was asked for a host that is denied")
	}
}

// TestBudgetOfAHost: what one host has used up closes that host alone, and the
// closing line says whose budget it was.
func TestBudgetOfAHost(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	bounded, hits := server(t, "bounded")
	open, _ := server(t, "open")
	p := workspaceOnly()
	p["network"] = doc{"allow": []any{open, doc{"host": bounded, "budget": doc{"connections": 2, "bytes_up": "1m"}}}}
	get := func(host string) string { return curl + "-o /dev/null -w '%{http_code} ' http://" + host + "/; " }
	res := l.wrap(t, sh(p, "head -c 2000000 /dev/zero > big; "+get(bounded)+get(bounded)+get(bounded)+get(open)+
		curl+"-w '%{http_code}' -T big http://"+bounded+"/"))
	if !strings.HasPrefix(res.stdout, "200 200 403 200 ") || !strings.Contains(res.stdout, "budget_connections") || hits() != 2 {
		t.Errorf("%d requests arrived: %v", hits(), res)
	}
	if !strings.Contains(res.stderr, bounded) {
		t.Errorf("the closing line doesn't name what was blocked: %v", res)
	}
	p["network"] = doc{"allow": []any{open, doc{"host": bounded, "budget": doc{"bytes_up": "1m"}}}}
	res = l.wrap(t, sh(p, curl+"-o /dev/null -w '%{http_code} ' -T big http://"+bounded+"/; "+get(bounded)+get(open)))
	if !strings.HasPrefix(res.stdout, "403 403 200 ") {
		t.Errorf("got %v", res)
	}
}
