package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Connect relays between a pair of streams and host:port through the proxy at
// proxyAddr ("host:port", or "user:password@host:port"): what an ssh ProxyCommand does. It returns when the far side has
// ended; the end of stdin is passed on as a half-close. A refusal comes back
// as an error with the proxy's own words.
func Connect(ctx context.Context, proxyAddr, host, port string, stdin io.Reader, stdout io.Writer) error {
	t, e := ParseTarget(joinHost(host, port))
	if e != nil {
		return e
	}
	var nd net.Dialer
	login, proxyAddr := splitLogin(proxyAddr)
	conn, err := nd.DialContext(ctx, "tcp", proxyAddr)
	if err != nil {
		return fmt.Errorf("cannot connect to the proxy: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(longAgo) })
	defer stop()
	br, err := requestTunnel(conn, t, login)
	if err != nil {
		return err
	}
	go sendAll(conn, stdin)
	if _, err := io.Copy(stdout, br); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("cannot relay: %w", err)
	}
	return nil
}

// joinHost takes an address with and without brackets.
func joinHost(host, port string) string {
	return net.JoinHostPort(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"), port)
}

// splitLogin takes the user name and password off a proxy's address.
func splitLogin(addr string) (login *Password, rest string) {
	i := strings.LastIndexByte(addr, '@')
	if i < 0 {
		return nil, addr
	}
	u, err := url.Parse("//" + addr)
	if err != nil || u.User == nil {
		return nil, addr[i+1:]
	}
	secret, _ := u.User.Password()
	return &Password{User: u.User.Username(), Secret: secret}, addr[i+1:]
}

func requestTunnel(conn net.Conn, t Target, login *Password) (*bufio.Reader, error) {
	host, auth := t.String(), ""
	if login != nil {
		auth = "Proxy-Authorization: " + login.basic() + "\r\n"
	}
	if _, err := fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", host, host, auth); err != nil {
		return nil, fmt.Errorf("cannot ask the proxy: %w", err)
	}
	br := bufio.NewReader(conn)
	resp, err := http.ReadResponse(br, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return nil, fmt.Errorf("cannot read the proxy's answer: %w", err)
	}
	if resp.StatusCode/100 == 2 {
		return br, nil // what follows is the tunnel
	}
	conn.SetReadDeadline(time.Now().Add(5 * time.Second)) // it is here already, or not to be had
	why, _ := io.ReadAll(io.LimitReader(br, 4<<10))
	return nil, refusedBy(resp.Status, string(why))
}

// refusedBy makes the proxy's answer an error of one line, made printable,
// since it ends up on a terminal.
func refusedBy(status, text string) error {
	var lines []string
	for line := range strings.Lines(text) {
		if line = printable(strings.TrimRight(line, "\r\n")); line != "" {
			lines = append(lines, strings.TrimPrefix(line, "pinfold: "))
		}
	}
	if len(lines) == 0 {
		lines = []string{"the proxy answered " + printable(status)}
	}
	return errors.New(strings.Join(lines, "; "))
}

func sendAll(conn net.Conn, stdin io.Reader) {
	if _, err := io.Copy(conn, stdin); err != nil {
		reset(conn)
		return
	}
	closeWrite(conn) // a far side that is gone is seen by the other way
}
