package egress

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"
)

// halfCloseWait is how long a client that has closed its sending side is
// waited for an answer: it may be listening still, or be dead, and only a
// write would tell.
const halfCloseWait = time.Minute

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
	ctx    context.Context //nolint:containedctx // its life is the exchange's
	cancel context.CancelCauseFunc
	idle   *time.Timer
	body   *body
	keep   bool // the client wants to go on
	server net.Conn

	wmu       sync.Mutex // interim answers come from the transport's goroutines
	responded bool
	down      int64
}

func (c *client) newExchange(h *head, req *http.Request, f flow, v Verdict) *exchange {
	x := &exchange{c: c, h: h, f: f, v: v, keep: wantsKeepAlive(h, req)}
	x.ctx, x.cancel = context.WithCancelCause(c.ctx)
	x.idle = time.AfterFunc(c.s.limits.Idle, func() { x.cancel(errIdle) })
	x.body = &body{x: x, src: req.Body, expect: len(h.expect) > 0 && h.minor == 1}
	x.req = req.WithContext(httptrace.WithClientTrace(x.ctx, &httptrace.ClientTrace{
		GotConn:        func(i httptrace.GotConnInfo) { x.server = i.Conn },
		Got1xxResponse: x.interim,
	}))
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
	defer x.idle.Stop()
	if x.body.src == http.NoBody {
		x.body.finish()
	}
	rt, isParent := x.c.s.transportFor(x.v, x.f.target.Port)
	resp, err := rt.RoundTrip(x.req)
	if err == nil && isParent && resp.StatusCode == http.StatusProxyAuthRequired {
		resp.Body.Close()
		err = &Error{Code: CodeUpstream, Target: x.f.target.String(), Why: "the parent proxy wants credentials (network.upstream)"}
	}
	if err != nil {
		return x.fail(err)
	}
	defer resp.Body.Close()
	again := x.respond(resp)
	x.c.emitFlow(x.f, x.verdict(), x.body.count(), x.down)
	return again
}

// verdict adds the address that was reached.
func (x *exchange) verdict() Verdict {
	if x.server != nil {
		if a, ok := x.server.RemoteAddr().(*net.TCPAddr); ok {
			x.v.Addr = a.AddrPort().Addr().Unmap()
		}
	}
	return x.v
}

// fail answers for a request that got no answer.
func (x *exchange) fail(err error) bool {
	whole := x.body.end()
	e := x.explain(err)
	if e == nil { // there is nobody to tell
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
	case errors.As(err, &e):
		return e
	case errors.Is(cause, errIdle):
		return x.problem(CodeTimeout, "it gave no answer in time", cause)
	case cause != nil, x.body.failed():
		return nil
	case errors.Is(err, io.EOF), isReset(err):
		return x.problem(CodeUpstreamReset, "it closed the connection without an answer", err)
	}
	return x.problem(CodeBadUpstream, "its answer can't be used: "+printable(rootCause(err)), err)
}

func (x *exchange) problem(code, why string, err error) *Error {
	return &Error{Code: code, Target: x.f.target.String(), Why: why, Err: err}
}

// interim passes an informational answer on. 100 is ours to give: it is sent
// when the body is wanted.
func (x *exchange) interim(code int, header textproto.MIMEHeader) error {
	if code == http.StatusContinue || x.h.minor == 0 {
		return nil
	}
	h := http.Header(header)
	dropHopByHop(h)
	x.wmu.Lock()
	defer x.wmu.Unlock()
	if x.responded {
		return nil
	}
	return x.c.write(headBytes(code, http.StatusText(code), h))
}

// sendContinue tells a client that waits to send its body.
func (x *exchange) sendContinue() {
	x.wmu.Lock()
	defer x.wmu.Unlock()
	if !x.responded {
		x.c.write([]byte("HTTP/1.1 100 Continue\r\n\r\n")) // a client that is gone is found by the next read
	}
}

func (x *exchange) touch() { x.idle.Reset(x.c.s.limits.Idle) }
