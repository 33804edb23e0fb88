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
