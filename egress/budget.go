package egress

import (
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"

	"pinfold/policy"
)

// Budget bounds what one run sends out in all, by whatever way. Nil bounds
// nothing. What crosses it is refused, and so is all that comes after.
type Budget struct {
	limits policy.Budget

	mu    sync.Mutex
	bytes int64 // sent, or being sent
	conns int64
	hosts map[string]struct{}
}

// NewBudget takes a policy's bounds, of which zero means none; nil where there
// is no bound at all.
func NewBudget(limits policy.Budget) *Budget {
	if limits == (policy.Budget{}) {
		return nil
	}
	return &Budget{limits: limits, hosts: map[string]struct{}{}}
}

// admit counts a connection to a host, before anything is resolved.
func (b *Budget) admit(t Target, host string) *Error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_, known := b.hosts[host]
	l := b.limits
	switch {
	case l.BytesUp > 0 && b.bytes >= l.BytesUp:
		return b.spent(t, CodeBudgetBytes, "bytes_up", l.BytesUp)
	case l.Connections > 0 && b.conns >= l.Connections:
		return b.spent(t, CodeBudgetConns, "connections", l.Connections)
	case l.Hosts > 0 && !known && int64(len(b.hosts)) >= l.Hosts:
		return b.spent(t, CodeBudgetHosts, "hosts", l.Hosts)
	}
	b.conns++
	if l.Hosts > 0 {
		b.hosts[host] = struct{}{}
	}
	return nil
}

func (b *Budget) spent(t Target, code, field string, n int64) *Error {
	return &Error{
		Code: code, Target: t.String(), Rule: "network.budget",
		Why: fmt.Sprintf("the run's budget is spent (network.budget.%s: %d)", field, n),
	}
}

// reserve takes up to n bytes from what may still be sent.
func (b *Budget) reserve(n int64) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	n = min(n, b.limits.BytesUp-b.bytes)
	b.bytes += n
	return n
}

// refund gives back what wasn't sent.
func (b *Budget) refund(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes -= n
}

// meter counts what a connection sends.
func (b *Budget) meter(t Target, conn net.Conn) net.Conn {
	if b == nil || b.limits.BytesUp == 0 {
		return conn
	}
	return &metered{Conn: conn, b: b, t: t}
}

// metered is a connection to a server that sends within a budget.
type metered struct {
	net.Conn
	b *Budget
	t Target
	// hit is the refusal: net/http hides the errors of a body that it writes.
	hit atomic.Pointer[Error]
}

// Write sends all of p or, where that would cross the budget, nothing.
func (m *metered) Write(p []byte) (int, error) {
	got := m.b.reserve(int64(len(p)))
	if got < int64(len(p)) {
		// What is left goes with it: a budget that was crossed stays so.
		return 0, m.over()
	}
	n, err := m.Conn.Write(p)
	m.b.refund(got - int64(n))
	return n, err
}

func (m *metered) over() error {
	e := m.b.spent(m.t, CodeBudgetBytes, "bytes_up", m.b.limits.BytesUp)
	m.hit.Store(e)
	return e
}

// overBudget is the refusal that a connection has met with, or nil.
func overBudget(c net.Conn) *Error {
	if m, ok := c.(*metered); ok {
		return m.hit.Load()
	}
	return nil
}

// meteredSlice is how much of the budget a bulk transfer takes at a time.
const meteredSlice = 256 << 10

// ReadFrom keeps bulk transfers within the kernel (splice(2)).
func (m *metered) ReadFrom(r io.Reader) (total int64, err error) {
	to, ok := m.Conn.(io.ReaderFrom)
	if !ok {
		return io.Copy(writerOnly{m}, r)
	}
	for {
		got := m.b.reserve(meteredSlice)
		if got == 0 {
			return total, m.end(r)
		}
		limited := &io.LimitedReader{R: r, N: got}
		n, err := to.ReadFrom(limited)
		m.b.refund(got - n)
		total += n
		if err != nil || n < got {
			return total, err
		}
	}
}

// end tells the end of what there is to send from the end of the budget.
func (m *metered) end(r io.Reader) error {
	switch n, err := r.Read(make([]byte, 1)); {
	case n > 0:
		return m.over()
	case err == io.EOF: //nolint:errorlint // as io.Reader has it
		return nil
	default:
		return err
	}
}

// CloseWrite passes a half-close on.
func (m *metered) CloseWrite() error { return closeWrite(m.Conn) }

// writerOnly hides ReadFrom.
type writerOnly struct{ io.Writer }

// bare is the connection beneath.
func bare(c net.Conn) net.Conn {
	if m, ok := c.(*metered); ok {
		return m.Conn
	}
	return c
}
