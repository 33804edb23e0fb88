package egress

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
)

// halfCloseWait is how long a client that has closed its sending side is
// waited for an answer: it may be listening still, or be dead, and only a
// write would tell.
const halfCloseWait = time.Minute

// continueWait is how long a server may think about Expect: 100-continue
// before the body is sent all the same (RFC 9110 section 10.1.1 wants a
// client not to wait forever: many servers don't know it).
const continueWait = time.Second

var (
	errClientGone = errors.New("the client closed the connection")
	longAgo       = time.Unix(1, 0) // a deadline that has passed
)

// exchange is one plain request and its answer.
type exchange struct {
	c      *client
	h      *head
	req    *http.Request
	f      flow
	v      Verdict
	ctx    context.Context
	cancel context.CancelCauseFunc
	idle   *time.Timer
	body   *body
	keep   bool // the client wants to go on
	o      *origin
	sent   chan error // how sending the request ended
	gone   func()     // the request has gone out, as much of it as will
	ended  func()     // told of the end, once a server was reached
	moved  atomic.Int64

	wmu       sync.Mutex // the body's reader sends 100 Continue
	responded bool
	down      int64
}

func (c *client) newExchange(h *head, req *http.Request, f flow, v Verdict) *exchange {
	x := &exchange{c: c, h: h, req: req, f: f, v: v, keep: wantsKeepAlive(h, req), sent: make(chan error, 1), ended: func() {}}
	x.gone = c.s.outflow.Hold(c.conn)
	c.free()
	x.ctx, x.cancel = context.WithCancelCause(c.ctx)
	x.idle = time.AfterFunc(c.s.limits.Idle, func() { x.cancel(errIdle) })
	x.body = newBody(x, req.Body, len(h.expect) > 0 && h.minor == 1)
	x.prepare()
	return x
}

// prepare makes the outgoing request of the incoming one.
func (x *exchange) prepare() {
	r := x.req
	upgrade := r.Header.Get("Upgrade")
	trailers := httpguts.HeaderValuesContainsToken(r.Header["Te"], "trailers")
	dropHopByHop(r.Header)
	setTarget(r, x.v, x.f.target.Port)
	r.Close = false
	if trailers {
		r.Header.Set("Te", "trailers")
	}
	// HTTP/2 by upgrade would carry requests that nobody here can read.
	if x.h.upgrade && upgrade != "" && !httpguts.HeaderValuesContainsToken([]string{upgrade}, "h2c") {
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", upgrade)
	}
	if _, ok := r.Header["User-Agent"]; !ok {
		r.Header["User-Agent"] = nil // or net/http adds its own
	}
	if r.Body != http.NoBody {
		r.Body = x.body
	}
}

// run reports whether the client connection can take another request.
func (x *exchange) run() bool {
	defer x.gone()
	defer x.idle.Stop()
	defer func() { x.ended() }()
	if x.body.src == http.NoBody {
		x.body.finish()
	}
	resp, err := x.roundTrip()
	if err != nil {
		return x.fail(err)
	}
	x.touch()
	again, whole := x.respond(resp)
	x.endOrigin(whole && !resp.Close)
	x.c.emitFlow(x.f, x.verdict(), x.body.count(), x.down)
	return again
}

// roundTrip sends the request and reads the head of its answer, while the
// body may still be on its way.
func (x *exchange) roundTrip() (*http.Response, error) {
	o, err := x.c.originFor(x.ctx, x.f.target, x.v)
	if err != nil {
		return nil, err
	}
	x.o = o
	x.ended = x.c.s.outflow.goesOn(x.c.conn, &x.moved)
	o.conn.SetDeadline(time.Time{}) // the last exchange left some
	// The end of the exchange's context ends every wait for the server.
	stop := context.AfterFunc(x.ctx, func() { o.conn.SetDeadline(longAgo) })
	defer stop()
	go x.send(o)
	resp, err := o.receive(x.req, x.interim)
	if err == nil && o.parent != nil && resp.StatusCode == http.StatusProxyAuthRequired {
		err = x.problem(CodeUpstream, "the parent proxy wants credentials (network.upstream)", nil)
	}
	return resp, err
}

// send ends the wait for an answer where it was the client that failed: the
// server would wait for the rest of the body forever.
func (x *exchange) send(o *origin) {
	err := o.send(x.req)
	x.gone()
	refused := overBudget(o.conn)
	switch {
	case refused != nil:
		x.cancel(refused)
	case err != nil && x.body.failed():
		x.cancel(errClientGone)
	}
	x.sent <- err
}

// endOrigin keeps the server connection for the next request where both have
// been carried whole, and closes it otherwise.
func (x *exchange) endOrigin(whole bool) {
	if x.o == nil {
		return
	}
	if !whole {
		x.c.dropOrigin() // before the wait: it ends the sending
	}
	x.body.end()
	if err := <-x.sent; err != nil {
		x.c.dropOrigin()
	}
	x.o = nil
}

// verdict adds the address that was reached.
func (x *exchange) verdict() Verdict {
	if x.c.origin != nil && x.c.origin.addr.IsValid() {
		x.v.Addr = x.c.origin.addr
	}
	return x.v
}

// fail answers for a request that got no answer.
func (x *exchange) fail(err error) bool {
	whole, stale := x.body.end(), x.o != nil && x.o.reused && isGone(err)
	e := x.explain(err)
	x.endOrigin(false)
	if e == nil || stale && x.c.served {
		// There is nobody to tell, or the server closed an idle connection
		// in the moment it was used again. Then the client sees just that,
		// and knows better than we do whether to repeat its request.
		x.c.conn.Close()
		return false
	}
	x.wmu.Lock()
	defer x.wmu.Unlock()
	x.responded = true
	return x.c.refuse(x.f, e, x.h.method, whole && x.keep)
}

func (x *exchange) explain(err error) *Error {
	var e *Error
	switch cause := context.Cause(x.ctx); {
	case errors.As(err, &e), errors.As(cause, &e):
		return e
	case errors.Is(cause, errIdle):
		return x.problem(CodeTimeout, "it gave no answer in time", cause)
	case x.body.malformed() != nil:
		return x.problem(CodeBadRequest, "the request's body isn't framed right", x.body.malformed())
	case cause != nil, x.body.failed():
		return nil
	case isGone(err):
		return x.problem(CodeUpstreamReset, "it closed the connection without an answer", err)
	}
	return x.problem(CodeBadUpstream, "its answer can't be used: "+printable(rootCause(err)), err)
}

func isGone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || isReset(err)
}

func (x *exchange) problem(code, why string, err error) *Error {
	return &Error{Code: code, Target: x.f.target.String(), Why: why, Err: err}
}

// interim passes an informational answer on. 100 is ours to give: it is sent
// when the body is wanted.
func (x *exchange) interim(resp *http.Response) error {
	x.touch()
	if resp.StatusCode == http.StatusContinue {
		x.body.proceed()
		return nil
	}
	if x.h.minor == 0 {
		return nil
	}
	_, reason, _ := strings.Cut(resp.Status, " ")
	dropHopByHop(resp.Header)
	x.wmu.Lock()
	defer x.wmu.Unlock()
	return x.c.write(headBytes(resp.StatusCode, reason, resp.Header))
}

// sendContinue tells a client that waits to send its body.
func (x *exchange) sendContinue() {
	x.wmu.Lock()
	defer x.wmu.Unlock()
	if !x.responded {
		x.c.write([]byte("HTTP/1.1 100 Continue\r\n\r\n"))
	}
}

func (x *exchange) touch() {
	x.moved.Store(time.Now().UnixNano())
	x.idle.Reset(x.c.s.limits.Idle)
}
