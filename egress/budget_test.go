package egress_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pinfold/egress"
	"pinfold/event"
	"pinfold/policy"
)

func budgetLab(t *testing.T, limits policy.Budget, entries ...policy.HostPattern) (*lab, *captured) {
	t.Helper()
	l := newLab(t, labConfig{allow: []string{"*.wild.example"}})
	l.server.Dialer.Budget = egress.NewBudget(policy.Network{Allow: entries, Budget: limits})
	for _, name := range []string{"a.wild.example", "b.wild.example", "c.wild.example"} {
		l.web(name, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			n, _ := io.Copy(io.Discard, r.Body)
			fmt.Fprint(w, n)
		}))
		l.raw("e"+name, 7, func(c net.Conn) {
			io.Copy(c, c)
			c.(*net.TCPConn).CloseWrite()
		})
	}
	return l, newCaptured(t, l)
}

// echo sends n bytes by one of the ways and says how many came back, or the
// reason of a refusal.
func (c *captured) echo(front, name string, n int) string {
	c.t.Helper()
	before := len(c.lab.events.all())
	var conn *net.TCPConn
	if front != "http" {
		name = "e" + name
	}
	switch front {
	case "http":
		req := fmt.Sprintf("POST http://%s/ HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", name, name, n, strings.Repeat("x", n))
		answer := c.send(req)
		if strings.HasPrefix(answer, "HTTP/1.1 200") {
			return answer[strings.LastIndexByte(answer, '\n')+1:]
		}
		return code(answer)
	case "connect":
		conn = c.dial()
		fmt.Fprintf(conn, "CONNECT %s:7 HTTP/1.1\r\n\r\n", name)
		head := make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))
		if _, err := io.ReadFull(conn, head); err != nil || !strings.HasPrefix(string(head), "HTTP/1.1 200") {
			return c.reason(before)
		}
	default:
		addr, _ := c.address(name)
		var ok bool
		if conn, ok = c.open(netip.AddrPortFrom(addr, 7)); !ok {
			return c.reason(before)
		}
	}
	defer conn.Close()
	go func() {
		conn.Write(make([]byte, n))
		conn.CloseWrite()
	}()
	got, _ := io.Copy(io.Discard, conn)
	if got == int64(n) {
		return fmt.Sprint(got)
	}
	return c.reason(before)
}

// reason is that of the next refusal.
func (c *captured) reason(before int) string {
	c.t.Helper()
	denied := func(e event.Event) bool { return e.Action == event.Denied }
	l := c.lab.events
	l.wait(c.t, func(event.Event) bool { return slices.ContainsFunc(l.list[before:], denied) })
	list := l.all()[before:]
	return list[slices.IndexFunc(list, denied)].Reason
}

func TestBudgetOfBytes(t *testing.T) {
	t.Parallel()
	for _, front := range []string{"http", "connect", "transparent"} {
		t.Run(front, func(t *testing.T) {
			t.Parallel()
			_, c := budgetLab(t, policy.Budget{BytesUp: 1 << 20})
			if got := c.echo(front, "a.wild.example", 300_000); got != "300000" {
				t.Errorf("within: %s", got)
			}
			if got := c.echo(front, "a.wild.example", 900_000); got != egress.CodeBudgetBytes {
				t.Errorf("across: %s", got)
			}
			for _, later := range []string{"http", "connect", "transparent"} {
				if got := c.echo(later, "b.wild.example", 1); got != egress.CodeBudgetBytes {
					t.Errorf("after it, by %s: %s", later, got)
				}
			}
		})
	}
}

func TestBudgetOfConnectionsAndHosts(t *testing.T) {
	t.Parallel()
	for _, front := range []string{"http", "connect", "transparent"} {
		t.Run(front, func(t *testing.T) {
			t.Parallel()
			_, conns := budgetLab(t, policy.Budget{Connections: 2})
			_, hosts := budgetLab(t, policy.Budget{Hosts: 2})
			for _, name := range []string{"a.wild.example", "b.wild.example"} {
				if got := conns.echo(front, name, 5); got != "5" {
					t.Errorf("connection: %s", got)
				}
				if got := hosts.echo(front, name, 5); got != "5" {
					t.Errorf("host: %s", got)
				}
			}
			if got := conns.echo(front, "a.wild.example", 5); got != egress.CodeBudgetConns {
				t.Errorf("third connection: %s", got)
			}
			if got := hosts.echo(front, "c.wild.example", 5); got != egress.CodeBudgetHosts {
				t.Errorf("third host: %s", got)
			}
			if got := hosts.echo(front, "b.wild.example", 5); got != "5" {
				t.Errorf("second host again: %s", got)
			}
		})
	}
}
