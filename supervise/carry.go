package supervise

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"pinfold/egress"
	"pinfold/event"
)

// The bounds of what is carried beside the proxy.
const (
	maxCarried   = 256           // of each listener, at once
	carryIdle    = 4 * time.Hour // as in the proxy's tunnels
	carryTimeout = 10 * time.Second
)

// Carrier carries connections from a listener to one place: a port of the
// host's loopback, one inside, or a listed socket.
type Carrier struct {
	Listener net.Listener
	Kind     event.Kind
	Via      string
	Target   string
	Dial     func(context.Context) (net.Conn, error)
	// Inward: the clients are outside.
	Inward bool
	// Outflow knows what leaves; nil for nobody.
	Outflow *egress.Outflow
}

// HostPort carries to a port of the host's loopback, of whichever family its
// service is.
func HostPort(l net.Listener, port uint16) Carrier {
	number := strconv.Itoa(int(port))
	return Carrier{
		Listener: l, Kind: event.Network, Via: "host_port", Target: "127.0.0.1:" + number,
		Dial: func(ctx context.Context) (net.Conn, error) { return dialHost(ctx, number) },
	}
}

func dialHost(ctx context.Context, number string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", "127.0.0.1:"+number)
	if err == nil {
		return conn, nil
	}
	if six, err6 := d.DialContext(ctx, "tcp", "[::1]:"+number); err6 == nil {
		return six, nil
	}
	return nil, err
}

// Serve accepts until the listener is closed or ctx ends. tell takes an event
// for each connection that was carried; nil drops them.
func (c Carrier) Serve(ctx context.Context, tell func(event.Event)) error {
	places := make(chan struct{}, maxCarried)
	var wg sync.WaitGroup
	defer wg.Wait()
	for {
		conn, err := c.Listener.Accept()
		switch {
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			if err == nil {
				conn.Close()
			}
			return nil
		case err != nil:
			return fmt.Errorf("cannot accept connections for %s: %w", c.Target, err)
		}
		select {
		case places <- struct{}{}:
			wg.Go(func() {
				defer func() { <-places }()
				c.carry(ctx, tell, conn)
			})
		default:
			conn.Close()
		}
	}
}

// carry is one connection.
func (c Carrier) carry(ctx context.Context, tell func(event.Event), conn net.Conn) {
	began := time.Now()
	// Also inward: a server may have answered, and ended, before the dial is
	// known to have come through.
	free := c.Outflow.Hold(conn)
	defer free()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	dialing, cancel := context.WithTimeout(ctx, carryTimeout)
	defer cancel()
	to, err := c.Dial(dialing)
	if err != nil {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // refused, as far as can be told by now
		}
		conn.Close()
		return
	}
	end := context.AfterFunc(ctx, func() { to.Close() })
	defer end()
	up, down, _ := c.Outflow.Relay(conn, to, carryIdle, c.Inward, free)
	if tell != nil {
		tell(event.Event{
			Kind: c.Kind, Action: event.Allowed, Target: c.Target, Via: c.Via,
			Up: up, Down: down, Duration: time.Since(began),
		})
	}
}
