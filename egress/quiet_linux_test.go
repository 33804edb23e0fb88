package egress_test

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"pinfold/egress"
	"pinfold/policy"
)

// A connection's silence is the kernel's to tell; it ends with what is sent.
func TestQuiet(t *testing.T) {
	t.Parallel()
	d := egress.NewDecider(policy.Network{})
	s := &egress.Server{Decider: d, Dialer: &egress.Dialer{Decider: d}}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background(), l) }()
	defer func() { s.Close(); <-served }()
	if _, ok := s.Quiet(); ok {
		t.Error("a server without connections knows of silence")
	}
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const silence = 200 * time.Millisecond
	quiet := func() (d time.Duration) { d, _ = s.Quiet(); return d }
	for deadline := time.Now().Add(10 * time.Second); quiet() < silence; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the silence lasts %v", quiet())
		}
	}
	io.WriteString(c, "GET http://denied.example/ HTTP/1.1\r\nHost: denied.example\r\n\r\n") //nolint:errcheck // read next
	if _, err := c.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if d, ok := s.Quiet(); !ok || d >= silence {
		t.Errorf("after an answer the silence lasts %v (known: %v)", d, ok)
	}
}

// What is carried beside the proxy tells the same, for as long as it is
// carried: a client that has sent all it had may still be listening.
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
	const silence = 200 * time.Millisecond
	quiet := func() time.Duration {
		d, ok := o.Quiet()
		if !ok {
			t.Fatal("nobody is connected")
		}
		return d
	}
	for deadline := time.Now().Add(10 * time.Second); quiet() < silence; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the silence lasts %v", quiet())
		}
	}
	if _, err := io.WriteString(outside, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := inside.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if d := quiet(); d >= silence {
		t.Errorf("after an answer the silence lasts %v", d)
	}
	outside.Close()
	<-ended
	if _, ok := o.Quiet(); ok {
		t.Error("a tunnel that has ended knows of silence")
	}
}
