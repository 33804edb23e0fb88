package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// copyBuffer holds what one read of an interactive flow brings.
	copyBuffer = 32 << 10
	// bulkSlice is how much is moved between two looks at the clock.
	bulkSlice = 256 << 20
	// bulkPause is how long a bulk transfer may pause before it gives its
	// pipe back: a pipe is two descriptors and up to 1 MiB of the user's
	// allowance (pipe(7), pipe-user-pages-soft).
	bulkPause = 100 * time.Millisecond
)

var buffers = sync.Pool{New: func() any { return new([copyBuffer]byte) }}

// errIdle ends a tunnel on which nothing has moved for the idle timeout.
var errIdle = errors.New("idle for too long")

// tunnel carries bytes between a client and a server, both ways, each way
// ending by itself (half-close), until both have ended or one fails.
type tunnel struct {
	client, server net.Conn
	idle           time.Duration
	up, down       atomic.Int64
	moved          atomic.Int64 // when bytes last moved, either way; Unix nanoseconds
	// first is done before anything goes up; nil for nothing. Its error ends
	// the tunnel.
	first func() error
	// refused: the ends are closed already, as they should be.
	refused atomic.Bool
	// sent: all that the client had to say has gone up.
	sent atomic.Bool
	// outflow knows of what leaves; with inward that is what comes down.
	outflow *Outflow
	inward  bool
	// taken is called once it does; nil for nobody.
	taken func()
	// ended is told of the end of what was let through; nil for nobody.
	ended func()
}

// Relay carries bytes both ways until both have ended, one fails, or nothing
// moves for the idle time. It closes both connections.
func Relay(client, server net.Conn, idle time.Duration) (up, down int64, err error) {
	return (*Outflow)(nil).Relay(client, server, idle, false, nil)
}

// run returns once both ways have ended and both connections are closed, soon
// after the end of ctx at the latest. The error is why a way ended other than
// by its end of file.
func (t *tunnel) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, t.end)
	defer stop()
	t.moved.Store(time.Now().UnixNano())
	wentUp, cameDown := t.leaves()
	if t.taken != nil {
		t.taken()
	}
	down := make(chan error, 1)
	go func() {
		defer cameDown()
		down <- t.oneWay(t.client, t.server, &t.down)
	}()
	err := t.goUp()
	wentUp()
	err = errors.Join(err, <-down)
	t.client.Close()
	t.server.Close()
	if t.ended != nil {
		t.ended()
	}
	return err
}

// leaves notes the way that leads out, until it has ended.
func (t *tunnel) leaves() (wentUp, cameDown func()) {
	if t.inward {
		return func() {}, t.outflow.add(t.server, &t.down)
	}
	return t.outflow.add(t.client, &t.up), func() {}
}

func (t *tunnel) goUp() error {
	if t.first != nil {
		if err := t.first(); err != nil {
			return err
		}
	}
	t.ended = t.outflow.goesOn(t.client, &t.moved)
	err := t.oneWay(t.server, t.client, &t.up)
	t.sent.Store(err == nil)
	return err
}

// end closes both ends, whatever moves. The client has gone by then; a server
// that never ends its side would be waited for. What has gone up stays sent:
// only a way that breaks off ends in a reset.
func (t *tunnel) end() {
	t.client.Close()
	if t.sent.Load() {
		t.server.Close()
		return
	}
	reset(t.server)
}

// oneWay copies src to dst and passes the end of file on. A failure must not
// look like an end of file to the other side, so it resets both.
func (t *tunnel) oneWay(dst, src net.Conn, count *atomic.Int64) error {
	err := t.copy(dst, src, count)
	if err == nil {
		err = closeWrite(dst)
	}
	if err != nil && !t.refused.Load() {
		reset(t.client)
		reset(t.server)
	}
	return err
}

func (t *tunnel) copy(dst, src net.Conn, count *atomic.Int64) error {
	ready := readiness(src)
	for {
		src.SetReadDeadline(time.Now().Add(t.idle / 2))
		dst.SetWriteDeadline(time.Time{})
		if err := ready.wait(); err != nil {
			if err = t.stillAlive(err); err != nil {
				return err
			}
			continue
		}
		n, full, err := t.copyOnce(dst, src)
		if t.count(count, n); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if !full {
			continue
		}
		if end, err := t.copyBulk(dst, src, count); end || err != nil {
			return err
		}
	}
}

// copyOnce reads what is there and writes it; full reports that there was
// more than a buffer holds.
func (t *tunnel) copyOnce(dst, src net.Conn) (n int, full bool, err error) {
	buf := buffers.Get().(*[copyBuffer]byte)
	defer buffers.Put(buf)
	n, err = src.Read(buf[:])
	if n > 0 {
		dst.SetWriteDeadline(time.Now().Add(t.idle))
		if n, werr := dst.Write(buf[:n]); werr != nil {
			return n, false, werr
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) { // a wait that was no wait: TLS
		return n, false, t.stillAlive(err)
	}
	return n, n == len(buf), err
}

// copyBulk moves a busy flow through the kernel (splice(2), where both ends
// are TCP) until it pauses or ends. The read deadline can't lose bytes: it
// only strikes while the pipe is empty. The write deadline could, so it is
// set to the idle timeout and its expiry ends the tunnel.
func (t *tunnel) copyBulk(dst, src net.Conn, count *atomic.Int64) (end bool, err error) {
	src = bare(src)
	to, ok := dst.(io.ReaderFrom)
	if _, tcp := src.(*net.TCPConn); !ok || !tcp {
		return false, nil
	}
	for {
		now := time.Now()
		src.SetReadDeadline(now.Add(bulkPause))
		dst.SetWriteDeadline(now.Add(t.idle))
		n, err := to.ReadFrom(&io.LimitedReader{R: src, N: bulkSlice})
		t.count(count, int(n))
		switch {
		case n == bulkSlice:
		case err == nil:
			return true, nil
		case isReadTimeout(err, now.Add(t.idle)):
			if n < copyBuffer {
				return false, nil
			}
		default:
			return false, err
		}
	}
}

// isReadTimeout tells the pause of the source from a destination that takes
// nothing: the write deadline is the later one by far.
func isReadTimeout(err error, writeDeadline time.Time) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) && time.Now().Before(writeDeadline)
}

func (t *tunnel) count(c *atomic.Int64, n int) {
	if n > 0 {
		c.Add(int64(n))
		t.moved.Store(time.Now().UnixNano())
	}
}

// stillAlive turns the deadline of one way into nothing while the other way
// moves.
func (t *tunnel) stillAlive(err error) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	if time.Since(time.Unix(0, t.moved.Load())) >= t.idle {
		return errIdle
	}
	return nil
}

// closeWrite ends one way of a connection.
func closeWrite(c net.Conn) error {
	hc, ok := c.(interface{ CloseWrite() error })
	if !ok {
		return c.Close()
	}
	// ENOTCONN: the other side has closed both ways and has its answer.
	if err := hc.CloseWrite(); err != nil && !isNotConnected(err) {
		return err
	}
	return nil
}

// reset closes a connection so that the other side sees ECONNRESET.
func reset(c net.Conn) {
	switch c := c.(type) {
	case *net.TCPConn:
		c.SetLinger(0)
	case *metered:
		reset(c.Conn)
		return
	case *prefixed:
		reset(c.Conn)
		return
	}
	c.Close()
}
