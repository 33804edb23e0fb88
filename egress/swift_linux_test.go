package egress_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/egress"
	"pinfold/policy"
)

// What a client is sent isn't paced, and doesn't pile up unsent: bulk depends
// on it. Connections have it from the listener they came by.
func TestListenersForBulk(t *testing.T) {
	t.Parallel()
	d := egress.NewDecider(policy.Network{})
	tr := egress.NewTransparent(&egress.Server{Decider: d, Dialer: &egress.Dialer{Decider: d}})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, serve := range []func(context.Context, net.Listener) error{tr.Serve, tr.ServeFlows} {
		ln, ok := listen(t).(*net.TCPListener)
		if !ok {
			t.Fatal("not a TCP listener")
		}
		ended := make(chan error, 1)
		go func() { ended <- serve(ctx, ln) }()
		defer func() { cancel(); <-ended }()
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		waitForBulk(t, ln)
	}
}

func waitForBulk(t *testing.T, ln *net.TCPListener) {
	t.Helper()
	raw, err := ln.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		var control string
		var unsent int
		err := errors.Join(raw.Control(func(fd uintptr) {
			control, err = unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION)
			unsent, _ = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT)
		}), err)
		control = strings.TrimRight(control, "\x00")
		switch {
		case err != nil:
			t.Fatal(err)
		case control == "reno" && unsent > 0:
			return
		case time.Now().After(deadline):
			t.Fatalf("congestion control %q, at most %d bytes unsent", control, unsent)
		}
	}
}
