package egress

import (
	"io"
	"net"
	"sync/atomic"
)

// metered is a connection to a server that sends within budgets of bytes.
type metered struct {
	net.Conn
	b       *Budget
	t       Target
	ledgers []*ledger // at least one, each with a bound
	// hit is the refusal: net/http hides the errors of a body that it writes.
	hit atomic.Pointer[Error]
}

// tightest is the ledger with the least left. The budget is locked.
func (m *metered) tightest() (*ledger, int64) {
	least := m.ledgers[0]
	for _, l := range m.ledgers[1:] {
		if l.left() < least.left() {
			least = l
		}
	}
	return least, max(0, least.left())
}

func (l *ledger) left() int64 { return l.limits.BytesUp - l.bytes }

// reserve takes n bytes, or none where one of the budgets has less. That one
// is spent by it: a budget that was crossed stays so.
func (m *metered) reserve(n int64) error {
	m.b.mu.Lock()
	defer m.b.mu.Unlock()
	if l, left := m.tightest(); left < n {
		l.bytes = l.limits.BytesUp
		return m.over(l)
	}
	m.charge(n)
	return nil
}

// reserveSlice takes a part of what is left, so that one busy connection
// leaves some to others, and reports how much; nothing where nothing is left.
func (m *metered) reserveSlice() int64 {
	m.b.mu.Lock()
	defer m.b.mu.Unlock()
	_, left := m.tightest()
	n := min(left, max(copyBuffer, min(left/8, meteredSlice)))
	m.charge(n)
	return n
}

// refund gives back what wasn't sent.
func (m *metered) refund(n int64) {
	m.b.mu.Lock()
	defer m.b.mu.Unlock()
	m.charge(-n)
}

func (m *metered) charge(n int64) {
	for _, l := range m.ledgers {
		l.bytes += n
	}
}

// Write sends all of p or, where that would cross a budget, nothing.
func (m *metered) Write(p []byte) (int, error) {
	if err := m.reserve(int64(len(p))); err != nil {
		return 0, err
	}
	n, err := m.Conn.Write(p)
	m.refund(int64(len(p) - n))
	return n, err
}

func (m *metered) over(l *ledger) error {
	e := l.spent(m.t, CodeBudgetBytes, "bytes_up", l.limits.BytesUp)
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

// meteredSlice is how much of a budget a bulk transfer takes at a time.
const meteredSlice = 256 << 10

// ReadFrom keeps bulk transfers within the kernel (splice(2)).
func (m *metered) ReadFrom(r io.Reader) (total int64, err error) {
	to, ok := m.Conn.(io.ReaderFrom)
	if !ok {
		return io.Copy(writerOnly{m}, r)
	}
	for {
		got := m.reserveSlice()
		if got == 0 {
			n, err := m.end(r)
			total += n
			if n == 0 {
				return total, err
			}
			continue
		}
		limited := &io.LimitedReader{R: r, N: got}
		n, err := to.ReadFrom(limited)
		m.refund(got - n)
		total += n
		if err != nil || n < got {
			return total, err
		}
	}
}

// end tells the end of what there is to send from the end of a budget: it sends
// one byte more, which crosses unless another connection has given some back.
func (m *metered) end(r io.Reader) (int64, error) {
	one := make([]byte, 1)
	switch n, err := r.Read(one); {
	case n > 0:
		n, err = m.Write(one)
		return int64(n), err
	case err == io.EOF: //nolint:errorlint // as io.Reader has it
		return 0, nil
	default:
		return 0, err
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
