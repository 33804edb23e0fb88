package egress

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	"pinfold/policy"
)

// Budget bounds what one run sends out, by whatever way: in all, and to what
// each entry of network.allow that has a budget of its own lets out. Nil
// bounds nothing. What crosses it is refused, and so is all that comes after.
type Budget struct {
	mu      sync.Mutex // guards what the ledgers hold
	ledgers []*ledger
}

// ledger is one budget, and what has been spent of it.
type ledger struct {
	limits policy.Budget
	rule   string
	what   string              // whose it is, for people
	of     *policy.HostPattern // nil: the run's, everything counts

	bytes int64 // sent, or being sent
	conns int64
	hosts map[string]struct{}
}

// NewBudget takes the bounds of a policy, of which zero means none; nil where
// there is no bound at all.
func NewBudget(n policy.Network) *Budget {
	b := &Budget{}
	if n.Budget != (policy.Budget{}) {
		b.add(&ledger{limits: n.Budget, rule: "network.budget", what: "the run's budget"})
	}
	for i := range n.Allow {
		if p := n.Allow[i]; p.Budget != (policy.Budget{}) {
			b.add(&ledger{
				limits: p.Budget, of: &p, rule: source(&p, "network.allow") + ".budget",
				what: fmt.Sprintf("the budget of %q", p.Text),
			})
		}
	}
	if b.ledgers == nil {
		return nil
	}
	return b
}

func (b *Budget) add(l *ledger) {
	l.hosts = map[string]struct{}{}
	b.ledgers = append(b.ledgers, l)
}

// account is the budgets that one connection counts against: the run's, and
// those of all the entries that match, not just of the first, so that an entry
// without a budget doesn't lift another one's. Nil counts nothing.
type account struct {
	b       *Budget
	t       Target
	host    string
	ledgers []*ledger
}

// admit counts a connection to a host, before anything is resolved.
func (b *Budget) admit(t Target, v Verdict) (*account, *Error) {
	if b == nil {
		return nil, nil
	}
	a := &account{b: b, t: t, host: v.Name}
	return a, a.take(func(p *policy.HostPattern) bool { return v.matches(p, t.Port) })
}

// matches says whether an entry is about the target that was decided about.
func (v Verdict) matches(p *policy.HostPattern, port uint16) bool {
	if v.Addr.IsValid() {
		return p.MatchesAddr(v.Addr, port)
	}
	return (p.Port == 0 || p.Port == port) && p.MatchesName(v.Name)
}

// budgetLines tells the budgets of all the entries that a flow counts for, a
// line each.
func (d *Decider) budgetLines(t Target, v Verdict) string {
	text := ""
	for i := range d.allow {
		p := &d.allow[i]
		if p.Budget == (policy.Budget{}) || !v.matches(p, t.Port) {
			continue
		}
		text += fmt.Sprintf("\nbudget: %s (%q):", source(p, "network.allow"), p.Text)
		for _, n := range []struct {
			name  string
			value int64
		}{{"bytes_up", p.Budget.BytesUp}, {"connections", p.Budget.Connections}, {"hosts", p.Budget.Hosts}} {
			if n.value > 0 {
				text += fmt.Sprintf(" %s %d", n.name, n.value)
			}
		}
	}
	return text
}

// admitAddrs counts it for the entries that match what the name resolved to.
func (a *account) admitAddrs(list []netip.Addr) *Error {
	if a == nil {
		return nil
	}
	return a.take(func(p *policy.HostPattern) bool {
		return slices.ContainsFunc(list, func(addr netip.Addr) bool { return p.MatchesAddr(addr, a.t.Port) })
	})
}

// take adds the ledgers that aren't counted against yet: all, or none where
// one is spent.
func (a *account) take(matches func(*policy.HostPattern) bool) *Error {
	a.b.mu.Lock()
	defer a.b.mu.Unlock()
	more := slices.DeleteFunc(slices.Clone(a.b.ledgers), func(l *ledger) bool {
		return slices.Contains(a.ledgers, l) || l.of != nil && !matches(l.of)
	})
	for _, l := range more {
		if err := l.admits(a.t, a.host); err != nil {
			return err
		}
	}
	for _, l := range more {
		l.conns++
		if l.limits.Hosts > 0 {
			l.hosts[a.host] = struct{}{}
		}
	}
	a.ledgers = append(a.ledgers, more...)
	return nil
}

func (l *ledger) admits(t Target, host string) *Error {
	_, known := l.hosts[host]
	switch m := l.limits; {
	case m.BytesUp > 0 && l.bytes >= m.BytesUp:
		return l.spent(t, CodeBudgetBytes, "bytes_up", m.BytesUp)
	case m.Connections > 0 && l.conns >= m.Connections:
		return l.spent(t, CodeBudgetConns, "connections", m.Connections)
	case m.Hosts > 0 && !known && int64(len(l.hosts)) >= m.Hosts:
		return l.spent(t, CodeBudgetHosts, "hosts", m.Hosts)
	}
	return nil
}

func (l *ledger) spent(t Target, code, field string, n int64) *Error {
	return &Error{
		Code: code, Target: t.String(), Rule: l.rule,
		Why: fmt.Sprintf("%s is spent (%s.%s: %d)", l.what, l.rule, field, n),
	}
}

// meter counts what a connection sends.
func (a *account) meter(conn net.Conn) net.Conn {
	if a == nil {
		return conn
	}
	bounded := slices.DeleteFunc(slices.Clone(a.ledgers), func(l *ledger) bool { return l.limits.BytesUp == 0 })
	if len(bounded) == 0 {
		return conn
	}
	return &metered{Conn: conn, b: a.b, t: a.t, ledgers: bounded}
}
