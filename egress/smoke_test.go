package egress_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"

	"pinfold/egress"
	"pinfold/policy"
)

func TestSmoke(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello "+r.Host) }))
	defer web.Close()
	p, err := policy.ParseHostPattern(web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	d := egress.NewDecider(policy.Network{Allow: []policy.HostPattern{p}})
	s := &egress.Server{Decider: d, Dialer: &egress.Dialer{Decider: d, SelfAddrs: func() (egress.HostAddrs, error) { return egress.HostAddrs{Own: []netip.Addr{}}, nil }}}
	ln, _ := net.Listen("tcp", "127.0.0.1:0")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, ln) }()
	for _, scheme := range []string{"http", "socks5"} {
		u := &url.URL{Scheme: scheme, Host: ln.Addr().String()}
		tr := &http.Transport{Proxy: http.ProxyURL(u)}
		c := http.Client{Transport: tr}
		for i := 0; i < 3; i++ {
			resp, err := c.Get(web.URL + "/x")
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(resp.Body)
			t.Log(scheme, resp.Status, string(b))
		}
		resp, err := c.Get("http://denied.example/x")
		if err != nil {
			t.Log(err)
		} else {
			b, _ := io.ReadAll(resp.Body)
			t.Log(scheme, resp.Status, resp.Header, string(b))
		}
		tr.CloseIdleConnections()
	}
	cancel()
	t.Log(<-done)
}
