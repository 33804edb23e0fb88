package egress_test

import (
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"pinfold/egress"
)

const silence = 200 * time.Millisecond

// untilQuiet waits until nothing has moved for a while.
func untilQuiet(t *testing.T, quiet func() (time.Duration, bool)) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		d, ok := quiet()
		if ok && d >= silence {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the silence lasts %v (known: %v)", d, ok)
		}
	}
}

// movedSince fails where nothing has; the kernel's clock ticks each 10 ms at
// the coarsest.
func movedSince(t *testing.T, began time.Time, quiet func() (time.Duration, bool)) {
	t.Helper()
	if d, ok := quiet(); !ok || d > time.Since(began)+20*time.Millisecond {
		t.Errorf("the silence lasts %v (known: %v), since before %v ago", d, ok, time.Since(began))
	}
}

// A connection's silence is the kernel's to tell; it ends with what is sent.
func TestQuiet(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{allow: []string{"echo.example:9000"}})
	l.raw("echo.example", 9000, func(c net.Conn) { io.Copy(c, c) }) //nolint:errcheck // its end is the client's
	c, br := l.connect("echo.example:9000")
	untilQuiet(t, l.server.Quiet)
	began := time.Now()
	io.WriteString(c, "x") //nolint:errcheck // read next
	if _, err := br.ReadByte(); err != nil {
		t.Fatal(err)
	}
	movedSince(t, began, l.server.Quiet)
}

// What a connection carried is known once it has ended, whichever way it came;
// what was refused is no traffic, whether its connection is still open or not.
func TestQuietOfShortConnections(t *testing.T) {
	t.Parallel()
	l := newLab(t, labConfig{allow: []string{"web.example", "echo.example:9000", "front.example:443"}})
	l.web("web.example", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	l.raw("echo.example", 9000, func(c net.Conn) { io.Copy(c, c) })          //nolint:errcheck // its end is the client's
	l.raw("front.example", 443, func(c net.Conn) { io.Copy(io.Discard, c) }) //nolint:errcheck // its end is the client's
	c := newCaptured(t, l)
	open := l.dial()
	io.WriteString(open, "GET http://denied.example/ HTTP/1.1\r\nHost: denied.example\r\n\r\n") //nolint:errcheck // read next
	if _, err := open.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	l.send("CONNECT denied.example:443 HTTP/1.1\r\nHost: denied.example:443\r\n\r\n")
	fronted, _ := l.connect("front.example:443")
	fronted.Write(hello(t, "hidden.example")) //nolint:errcheck // refused
	io.Copy(io.Discard, fronted)              //nolint:errcheck // to its end, whichever
	fronted.Close()
	untilGone(t, l, 1)
	if d, ok := l.server.Quiet(); ok {
		t.Errorf("after refusals alone there is a silence of %v", d)
	}
	for name, once := range map[string]func(){
		"plain":    func() { l.send("GET http://web.example/ HTTP/1.1\r\nHost: web.example\r\nConnection: close\r\n\r\n") },
		"tunnel":   func() { c, _ := l.connect("echo.example:9000"); c.Close() },
		"socks":    func() { l.socks(3, []byte("echo.example"), 9000) },
		"captured": func() { c.try("echo.example", netip.Addr{}, 9000) },
	} {
		began := time.Now()
		once()
		untilGone(t, l, 1)
		if movedSince(t, began, l.server.Quiet); t.Failed() {
			t.Fatal(name)
		}
		untilQuiet(t, l.server.Quiet)
	}
}

// untilGone waits until so many clients are left.
func untilGone(t *testing.T, l *lab, left int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); l.server.Active() > left; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d clients are there", l.server.Active())
		}
	}
}

// What is carried beside the proxy tells the same, for as long as it is
// carried (a client that has sent all it had may still be listening) and after.
func TestQuietOutflow(t *testing.T) {
	t.Parallel()
	var o egress.Outflow
	if _, ok := o.Quiet(); ok {
		t.Error("without a tunnel there is a silence")
	}
	inside, client := pipe(t)
	outside, server := pipe(t)
	ended := make(chan struct{})
	go func() { defer close(ended); o.Relay(client, server, time.Minute, false, nil) }() //nolint:errcheck // how it ends is read below
	if err := inside.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if n, err := outside.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Fatalf("got %d bytes, %v", n, err)
	}
	untilQuiet(t, o.Quiet)
	began := time.Now()
	if _, err := io.WriteString(outside, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := inside.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	movedSince(t, began, o.Quiet)
	outside.Close()
	<-ended
	movedSince(t, began, o.Quiet)
	untilQuiet(t, o.Quiet)
}
