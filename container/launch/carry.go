package launch

import (
	"context"
	"fmt"
	"net"
	"os"

	"pinfold/container"
	"pinfold/event"
	"pinfold/supervise"
)

// relay stands in for a listed socket: it dials the real one for each
// connection, so a server that came back is found again.
func relay(r container.Relay) (supervise.Carrier, error) {
	if err := os.MkdirAll(r.Dir, 0o755); err != nil { //nolint:gosec // its parent is nobody else's
		return supervise.Carrier{}, fmt.Errorf("cannot stand in for the socket %q: %w", r.Socket, err)
	}
	if err := os.Chmod(r.Dir, 0o755); err != nil { //nolint:gosec // whatever the umask was
		return supervise.Carrier{}, fmt.Errorf("cannot stand in for the socket %q: %w", r.Socket, err)
	}
	l, err := listenUnix(r.Listen)
	if err != nil {
		return supervise.Carrier{}, fmt.Errorf("cannot stand in for the socket %q: %w", r.Socket, err)
	}
	return supervise.Carrier{Listener: l, Kind: event.Socket, Via: "relay", Target: r.Socket, Dial: func(ctx context.Context) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", r.Socket)
	}}, nil
}

// bind asks for the sockets that the supervisor stands in for, before the
// container is made: its directories are mounted there.
func bindRelays(list []container.Relay) ([]supervise.Carrier, error) {
	var out []supervise.Carrier
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

func closeCarriers(list []supervise.Carrier) {
	for _, c := range list {
		c.Listener.Close()
	}
}
