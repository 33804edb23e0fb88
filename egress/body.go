package egress

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// body is a request's body on its way to the server, read by the goroutine
// that sends the request, maybe still when the answer is complete. Once it has been read to its
// end the connection is watched, so that a client that goes away ends the
// wait for an answer.
type body struct {
	x      *exchange
	src    io.ReadCloser
	stop   atomic.Bool
	mu     sync.Mutex    // held while the body is read, so nothing else waits for it but end
	expect bool          // 100 Continue is owed
	go100  chan struct{} // closed when the server wants the body
	once   sync.Once
	over   chan struct{} // closed by end
	eof    atomic.Bool
	broken atomic.Pointer[error]
	n      atomic.Int64
	watch  chan struct{} // closed when the watcher has left the reader
	wait   *time.Timer   // runs while a half-closed client is waited for
}

func newBody(x *exchange, src io.ReadCloser, expect bool) *body {
	return &body{x: x, src: src, expect: expect, go100: make(chan struct{}), over: make(chan struct{})}
}

// proceed says that the server wants the body.
func (b *body) proceed() { b.once.Do(func() { close(b.go100) }) }

// await holds a body back that the client wants to be asked for, until the
// server asks, is silent for long enough, or has answered.
func (b *body) await() error {
	timer := time.NewTimer(continueWait)
	defer timer.Stop()
	select {
	case <-b.go100:
	case <-timer.C:
	case <-b.over:
		return errBodyOver
	}
	b.x.sendContinue()
	return nil
}

var errBodyOver = errors.New("the exchange is over")

// Read is called by the sender alone.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.eof.Load() { // net/http asks once more
		return 0, io.EOF
	}
	if b.expect {
		if err := b.await(); err != nil {
			return 0, err
		}
		b.expect = false
	}
	// In this order, so that end's deadline can't be overwritten unseen.
	b.x.c.conn.SetReadDeadline(time.Now().Add(b.x.c.s.limits.Idle))
	if b.stop.Load() {
		return 0, errBodyOver
	}
	n, err := b.src.Read(p)
	b.n.Add(int64(n))
	b.x.touch()
	switch {
	case errors.Is(err, io.EOF):
		b.finishLocked()
	case err != nil:
		b.broken.Store(&err)
	}
	return n, err
}

// Close is net/http's: the exchange decides when the body is over.
func (b *body) Close() error { return nil }

// finish marks a body that is complete.
func (b *body) finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finishLocked()
}

func (b *body) finishLocked() {
	if b.eof.Load() {
		return
	}
	defer b.eof.Store(true) // once the watcher is there for end to find
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
		b.wait = timer // end looks after watch is closed
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
	if !b.stop.Swap(true) {
		close(b.over)
	}
	b.x.c.conn.SetReadDeadline(longAgo)
	b.mu.Lock()
	eof, watch := b.eof.Load(), b.watch
	b.mu.Unlock()
	if watch != nil {
		b.x.c.conn.SetReadDeadline(longAgo) // finish may have lifted the first one
		<-watch
	}
	if b.wait != nil {
		b.wait.Stop()
	}
	return eof
}

func (b *body) complete() bool { return b.eof.Load() }

func (b *body) failed() bool { return b.broken.Load() != nil }

// malformed is why the body can't be read, where that isn't the connection's
// end.
func (b *body) malformed() error {
	p := b.broken.Load()
	var netErr net.Error
	if p == nil || isGone(*p) || errors.As(*p, &netErr) {
		return nil
	}
	return *p
}

func (b *body) count() int64 { return b.n.Load() }

func (b *body) add(n int64) { b.n.Add(n) }
