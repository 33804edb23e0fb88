package supervise_test

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"pinfold/egress"
	"pinfold/event"
	"pinfold/supervise"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// ask sends a line to where a carrier listens and reads to the end.
func ask(t *testing.T, l net.Listener) (string, error) {
	t.Helper()
	conn, err := net.Dial("tcp", l.Addr().String()) //nolint:noctx // to this process
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("ping")); err != nil {
		return "", err
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil { //nolint:forcetypeassert // it is one
		return "", err
	}
	got, err := io.ReadAll(conn)
	return string(got), err
}

// TestHostPortCarries: bytes go both ways, each connection is told, and the
// end of the run ends the service.
func TestHostPortCarries(t *testing.T) {
	t.Parallel()
	server, l := listen(t), listen(t)
	go func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			got, _ := io.ReadAll(conn)
			_, _ = conn.Write(append(got, " pong"...))
			conn.Close()
		}
	}()
	var mu sync.Mutex
	var told []event.Event
	c := supervise.HostPort(l, uint16(server.Addr().(*net.TCPAddr).Port)) //nolint:gosec,forcetypeassert // a port
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- c.Serve(ctx, func(e event.Event) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, e)
		})
	}()
	for range 3 {
		if got, err := ask(t, l); err != nil || got != "ping pong" {
			t.Errorf("got %q, %v", got, err)
		}
	}
	cancel()
	l.Close()
	if err := <-served; err != nil { // with its connections
		t.Error(err)
	}
	if len(told) != 3 || told[0].Up != 4 || told[0].Down != 9 || told[0].Target != server.Addr().String() || told[0].Via != "host_port" {
		t.Errorf("told %+v", told)
	}
}

// TestCarrierRefuses: where nothing can be reached the connection is closed,
// and nothing is told.
func TestCarrierRefuses(t *testing.T) {
	t.Parallel()
	l := listen(t)
	c := supervise.Carrier{Listener: l, Target: "nowhere", Dial: func(context.Context) (net.Conn, error) {
		return nil, errors.New("nobody there")
	}}
	served := make(chan error, 1)
	go func() { served <- c.Serve(t.Context(), func(e event.Event) { t.Errorf("told %+v", e) }) }()
	if got, err := ask(t, l); got != "" {
		t.Errorf("got %q, %v", got, err)
	}
	l.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// TestDrainWaitsForADialInside: what a server inside answers and ends with is
// on its way before the dial to it returns.
func TestDrainWaitsForADialInside(t *testing.T) {
	t.Parallel()
	server, l := listen(t), listen(t)
	var outflow egress.Outflow
	dialed, drained := make(chan struct{}), make(chan struct{})
	carrier := supervise.Carrier{
		Listener: l, Kind: event.Network, Target: "inside", Inward: true, Outflow: &outflow,
		Dial: func(ctx context.Context) (net.Conn, error) {
			to, err := (&net.Dialer{}).DialContext(ctx, "tcp", server.Addr().String())
			close(dialed)
			select { // nothing carries it yet
			case <-drained:
				err = errors.New("nobody waited for this one")
			case <-time.After(200 * time.Millisecond):
			}
			return to, err
		},
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = carrier.Serve(ctx, nil) })
	wg.Go(func() {
		conn, err := server.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(conn, "the last word")
		conn.Close()
	})
	wg.Go(func() {
		<-dialed
		outflow.Drain(ctx)
		close(drained)
	})
	client, err := net.Dial("tcp", l.Addr().String()) //nolint:noctx // to this process
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if got, err := io.ReadAll(client); string(got) != "the last word" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	<-drained
	cancel()
	l.Close()
	wg.Wait()
}
