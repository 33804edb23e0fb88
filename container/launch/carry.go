package launch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"pinfold/container"
	"pinfold/egress"
	"pinfold/event"
)

// The bounds of what is carried beside the proxy.
const (
	maxCarried   = 256           // of each listener, at once
	carryIdle    = 4 * time.Hour // as in the proxy's tunnels
	carryTimeout = 10 * time.Second
)

// carrier carries connections from a listener to one place: a port of the
// host's loopback, or a listed socket.
type carrier struct {
	l      net.Listener
	kind   event.Kind
	via    string
	target string
	dial   func(context.Context) (net.Conn, error)
}

// hostPort carries to a port of the host's loopback, of whichever family its
// service is.
func hostPort(l net.Listener, port uint16) carrier {
	number := strconv.Itoa(int(port))
	return carrier{l: l, kind: event.Network, via: "host_port", target: "127.0.0.1:" + number, dial: func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", "127.0.0.1:"+number)
		if err == nil {
			return conn, nil
		}
		if six, err6 := d.DialContext(ctx, "tcp", "[::1]:"+number); err6 == nil {
			return six, nil
		}
		return nil, err
	}}
}

// relay stands in for a listed socket: it dials the real one for each
// connection, so a server that came back is found again.
func relay(r container.Relay) (carrier, error) {
	if err := os.MkdirAll(r.Dir, 0o755); err != nil { //nolint:gosec // its parent is nobody else's
		return carrier{}, fmt.Errorf("cannot stand in for the socket %q: %w", r.Socket, err)
	}
	if err := os.Chmod(r.Dir, 0o755); err != nil { //nolint:gosec // whatever the umask was
		return carrier{}, fmt.Errorf("cannot stand in for the socket %q: %w", r.Socket, err)
	}
	l, err := listenUnix(r.Listen)
	if err != nil {
		return carrier{}, fmt.Errorf("cannot stand in for the socket %q: %w", r.Socket, err)
	}
	return carrier{l: l, kind: event.Socket, via: "relay", target: r.Socket, dial: func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", r.Socket)
	}}, nil
}

// bind asks for the sockets that the supervisor stands in for, before the
// container is made: its directories are mounted there.
func bindRelays(list []container.Relay) ([]carrier, error) {
	var out []carrier
	for _, r := range list {
		c, err := relay(r)
		if err != nil {
			closeCarriers(out)
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func closeCarriers(list []carrier) {
	for _, c := range list {
		c.l.Close()
	}
}

// serve accepts until the listener is closed.
func (c carrier) serve(ctx context.Context, o *Options) error {
	places := make(chan struct{}, maxCarried)
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		conn, err := c.l.Accept()
		switch {
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			if err == nil {
				conn.Close()
			}
			return nil
		case err != nil:
			return fmt.Errorf("cannot accept connections for %s: %w", c.target, err)
		}
		select {
		case places <- struct{}{}:
			wg.Go(func() {
				defer func() { <-places }()
				c.carry(ctx, o, conn)
			})
		default:
			conn.Close()
		}
	}
}

// carry is one connection.
func (c carrier) carry(ctx context.Context, o *Options, conn net.Conn) {
	began := time.Now()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	dialing, cancel := context.WithTimeout(ctx, carryTimeout)
	defer cancel()
	to, err := c.dial(dialing)
	if err != nil {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // refused, as far as can be told by now
		}
		conn.Close()
		return
	}
	end := context.AfterFunc(ctx, func() { to.Close() })
	defer end()
	up, down, _ := egress.Relay(conn, to, carryIdle)
	if o.AllFlows {
		o.emit(event.Event{
			Kind: c.kind, Action: event.Allowed, Target: c.target, Via: c.via,
			Up: up, Down: down, Duration: time.Since(began),
		})
	}
}
