package egress_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"pinfold/egress"
	"pinfold/event"
	"pinfold/policy"
)

// bounded is an entry of network.allow with a budget of its own.
func bounded(t *testing.T, text string, b policy.Budget) policy.HostPattern {
	t.Helper()
	p, err := policy.ParseHostPattern(text)
	if err != nil {
		t.Fatal(err)
	}
	p.Budget, p.Source = b, "network.allow[7]"
	return p
}

// The servers that tunnels reach have names of their own: see budgetLab.
func bothNames(t *testing.T, name string, b policy.Budget) []policy.HostPattern {
	return []policy.HostPattern{bounded(t, name, b), bounded(t, "e"+name, b)}
}

var budgetFronts = []string{"http", "connect", "transparent"}

// step is one flow: to which host, with how many bytes, and what comes of it.
type step struct {
	name string
	n    int
	want string
}

func (c *captured) steps(front string, steps []step) {
	c.t.Helper()
	for i, s := range steps {
		if got := c.echo(front, s.name, s.n); got != s.want {
			c.t.Errorf("%s, step %d, %d bytes to %s: %s, want %s", front, i, s.n, s.name, got, s.want)
		}
	}
}

func TestBudgetOfAnEntry(t *testing.T) {
	t.Parallel()
	const a, b, c = "a.wild.example", "b.wild.example", "c.wild.example"
	const bytes, conns, hosts = egress.CodeBudgetBytes, egress.CodeBudgetConns, egress.CodeBudgetHosts
	wild := func(t *testing.T, budget policy.Budget) policy.HostPattern {
		return bounded(t, "*.wild.example", budget)
	}
	for name, test := range map[string]struct {
		run     policy.Budget
		entries func(t *testing.T) []policy.HostPattern
		steps   []step
	}{
		"bytes": {
			entries: func(t *testing.T) []policy.HostPattern { return bothNames(t, a, policy.Budget{BytesUp: 1 << 20}) },
			steps:   []step{{a, 300_000, "300000"}, {a, 900_000, bytes}, {a, 1, bytes}, {b, 900_000, "900000"}},
		},
		"connections": {
			entries: func(t *testing.T) []policy.HostPattern { return bothNames(t, a, policy.Budget{Connections: 2}) },
			steps:   []step{{a, 5, "5"}, {b, 5, "5"}, {a, 5, "5"}, {a, 5, conns}, {b, 5, "5"}},
		},
		"hosts beneath a wildcard": {
			entries: func(t *testing.T) []policy.HostPattern {
				return []policy.HostPattern{wild(t, policy.Budget{Hosts: 2})}
			},
			steps: []step{{a, 5, "5"}, {b, 5, "5"}, {c, 5, hosts}, {a, 5, "5"}},
		},
		"an entry before it without one": {
			entries: func(t *testing.T) []policy.HostPattern {
				return append([]policy.HostPattern{wild(t, policy.Budget{})}, bothNames(t, a, policy.Budget{Connections: 1})...)
			},
			steps: []step{{a, 5, "5"}, {a, 5, conns}, {b, 5, "5"}},
		},
		"two entries": {
			entries: func(t *testing.T) []policy.HostPattern {
				return append([]policy.HostPattern{wild(t, policy.Budget{Connections: 3})}, bothNames(t, a, policy.Budget{Connections: 2})...)
			},
			steps: []step{{a, 5, "5"}, {a, 5, "5"}, {a, 5, conns}, {b, 5, "5"}, {b, 5, conns}},
		},
		"the run's beside an entry's": {
			run:     policy.Budget{BytesUp: 300_000},
			entries: func(t *testing.T) []policy.HostPattern { return bothNames(t, a, policy.Budget{BytesUp: 100_000}) },
			steps:   []step{{a, 120_000, bytes}, {b, 120_000, "120000"}, {b, 200_000, bytes}},
		},
		"what a name resolves to": {
			entries: func(t *testing.T) []policy.HostPattern {
				return []policy.HostPattern{bounded(t, "203.0.113.0/24", policy.Budget{Connections: 1})}
			},
			steps: []step{{a, 5, "5"}, {b, 5, conns}},
		},
		"another port": {
			entries: func(t *testing.T) []policy.HostPattern {
				return []policy.HostPattern{bounded(t, "*.wild.example:99", policy.Budget{Connections: 1})}
			},
			steps: []step{{a, 5, "5"}, {a, 5, "5"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, front := range budgetFronts {
				_, lab := budgetLab(t, test.run, test.entries(t)...)
				lab.steps(front, test.steps)
			}
		})
	}
}

// The event says whose budget it was.
func TestBudgetEventOfAnEntry(t *testing.T) {
	t.Parallel()
	l, c := budgetLab(t, policy.Budget{}, bothNames(t, "a.wild.example", policy.Budget{Connections: 1})...)
	c.steps("connect", []step{{"a.wild.example", 5, "5"}, {"a.wild.example", 5, egress.CodeBudgetConns}})
	e := l.events.wait(t, func(e event.Event) bool { return e.Action == event.Denied })
	if e.Rule != "network.allow[7].budget" || e.Target != "ea.wild.example:7" || e.Hint != "" {
		t.Errorf("got %+v", e)
	}
}

// Where a parent serves every host, its connection is one host's all the same.
func TestBudgetThroughAParent(t *testing.T) {
	t.Parallel()
	p := &parent{asked: make(chan string, 9)}
	ts := httptest.NewServer(p)
	t.Cleanup(ts.Close)
	l := parentLab(t, ts.URL, nil, nil)
	l.server.Dialer.Budget = egress.NewBudget(policy.Network{Budget: policy.Budget{Hosts: 1}})
	conn := l.dial()
	br := bufio.NewReader(conn)
	for _, step := range []struct {
		host string
		want int
	}{{"far.example", 200}, {"far.example", 200}, {"near.example", 403}, {"far.example", 200}} {
		fmt.Fprintf(conn, "GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n", step.host, step.host)
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != step.want {
			t.Errorf("%s: %d %s, want %d", step.host, resp.StatusCode, body, step.want)
		}
	}
}

func TestExplainTellsBudgets(t *testing.T) {
	t.Parallel()
	d := egress.NewDecider(policy.Network{Allow: []policy.HostPattern{
		bounded(t, "*.wild.example", policy.Budget{}), bounded(t, "a.wild.example", policy.Budget{BytesUp: 5, Hosts: 2}),
		bounded(t, "203.0.113.0/24:80", policy.Budget{Connections: 3}),
	}})
	for target, want := range map[string]string{
		"a.wild.example:80": "budget: network.allow[7] (\"a.wild.example\"): bytes_up 5 hosts 2",
		"b.wild.example:80": "",
		"203.0.113.9:80":    "budget: network.allow[7] (\"203.0.113.0/24:80\"): connections 3",
	} {
		parsed, err := egress.ParseTarget(target)
		if err != nil {
			t.Fatal(err)
		}
		if _, got, _ := strings.Cut(d.Explain(parsed), "\n"); got != want {
			t.Errorf("%s: got %q, want %q", target, got, want)
		}
	}
}
