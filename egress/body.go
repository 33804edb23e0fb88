package egress

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// body is a request's body on its way through the transport, whose goroutine
// may still read it when the answer is complete. Once it has been read to its
// end the connection is watched, so that a client that goes away ends the
// wait for an answer.
type body struct {
	x      *exchange
	src    io.ReadCloser
	stop   atomic.Bool
	mu     sync.Mutex
	expect bool // 100 Continue is owed
	eof    bool
	broken bool
	n      int64
	watch  chan struct{} // closed when the watcher has left the reader
	wait   *time.Timer   // runs while a half-closed client is waited for
}

var errBodyOver = errors.New("the exchange is over")

// Read is called by the transport alone.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.expect {
		b.expect = false
		b.x.sendContinue()
	}
	// In this order, so that end's deadline can't be overwritten unseen.
	b.x.c.conn.SetReadDeadline(time.Now().Add(b.x.c.s.limits.Idle))
	if b.stop.Load() {
		return 0, errBodyOver
	}
	n, err := b.src.Read(p)
	b.n += int64(n)
	b.x.touch()
	switch {
	case errors.Is(err, io.EOF):
		b.finishLocked()
	case err != nil:
		b.broken = true
	}
	return n, err //nolint:wrapcheck // io.EOF must stay itself
}

// Close is the transport's: the exchange decides when the body is over.
func (b *body) Close() error { return nil }

// finish marks a body that is complete.
func (b *body) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finishLocked()
}

func (b *body) finishLocked() {
	if b.eof {
		return
	}
	b.eof = true
	b.watch = make(chan struct{})
	b.x.c.conn.SetReadDeadline(time.Time{})
	if b.stop.Load() {
		close(b.watch)
		return
	}
	go b.watchClient()
}

// watchClient looks for the first byte of a next request, which stays where
// it is, or for the end of the connection.
func (b *body) watchClient() {
	defer close(b.watch)
	_, err := b.x.c.br.Peek(1)
	switch {
	case err == nil, b.stop.Load():
	case errors.Is(err, io.EOF):
		wait := min(halfCloseWait, b.x.c.s.limits.Idle)
		timer := time.AfterFunc(wait, func() { b.x.abandon() })
		b.mu.Lock()
		b.wait = timer
		b.mu.Unlock()
	default:
		b.x.cancel(errClientGone)
	}
}

// abandon gives a half-closed client up unless its answer has begun: then the
// next write tells whether it lives.
func (x *exchange) abandon() {
	x.wmu.Lock()
	defer x.wmu.Unlock()
	if !x.responded {
		x.cancel(errClientGone)
	}
}

// end takes the connection's reader back. It reports whether the body was
// read whole, so that what follows is the next request.
func (b *body) end() bool {
	b.stop.Store(true)
	b.x.c.conn.SetReadDeadline(longAgo)
	b.mu.Lock()
	eof, watch := b.eof, b.watch
	b.mu.Unlock()
	if watch != nil {
		b.x.c.conn.SetReadDeadline(longAgo) // finish may have lifted the first one
		<-watch
	}
	b.mu.Lock()
	if b.wait != nil {
		b.wait.Stop()
	}
	b.mu.Unlock()
	return eof
}

func (b *body) complete() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.eof
}

func (b *body) failed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.broken
}

func (b *body) count() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.n
}
