package egress

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"pinfold/event"
)

// client is one connection from inside.
type client struct {
	s    *Server
	ctx  context.Context
	conn net.Conn
	br   *bufio.Reader

	origin *origin // of plain requests
	served bool    // a plain request has been answered

	gone func() // see busy

	pid     int
	program string
}

// The most that is read, and waited, so that an answer isn't destroyed by the
// reset that closing on unread bytes would send.
const (
	lingerBytes = 256 << 10
	lingerTime  = 500 * time.Millisecond
)

// linger ends the connection after an answer.
func (c *client) linger() {
	if closeWrite(c.conn) == nil {
		c.conn.SetReadDeadline(time.Now().Add(lingerTime))
		io.CopyN(io.Discard, c.conn, lingerBytes)
	}
	c.conn.Close()
}

// carry is an allowed tunnel from its start to its event.
func (c *client) carry(f flow, v Verdict, server net.Conn) {
	check := c.s.Decider.helloFor(f.target, v)
	var up, down int64
	var err error
	if check == nil {
		up, down, err = c.pipe(server)
	} else {
		up, down, err = c.pipeChecked(server, check)
	}
	var refused *Error
	if errors.As(err, &refused) {
		refused.Target = f.target.String()
		c.emitDenied(f, refused)
		return
	}
	c.emitFlow(f, v, up, down)
}

// tunnel is to the server that was reached.
func (c *client) tunnel(server net.Conn) *tunnel {
	return &tunnel{client: c.conn, server: server, idle: c.s.limits.Idle, outflow: &c.s.outflow, taken: c.free}
}

// busy notes that the client may have sent what hasn't gone out; free, that it
// has, or that somebody else says so.
func (c *client) busy() {
	if c.gone == nil {
		c.gone = c.s.outflow.Hold(c.conn)
	}
}

func (c *client) free() {
	if c.gone != nil {
		c.gone()
		c.gone = nil
	}
}

// pipeChecked is pipe with an eye on what the client says first.
func (c *client) pipeChecked(server net.Conn, check *helloCheck) (up, down int64, err error) {
	head, _ := c.br.Peek(c.br.Buffered())
	ahead := bytes.Clone(head)
	c.br = nil
	c.conn.SetDeadline(time.Time{})
	t := c.tunnel(server)
	t.first = func() error {
		c.conn.SetReadDeadline(time.Now().Add(t.idle))
		n, err := check.check(io.MultiReader(bytes.NewReader(ahead), c.conn), server)
		t.count(&t.up, n)
		var refused *Error
		switch {
		case errors.As(err, &refused):
			t.refused.Store(true)
			c.refuseHello(refused, server)
		case err != nil:
			reset(c.conn)
			reset(server)
		}
		return err
	}
	err = t.run(c.ctx)
	return t.up.Load(), t.down.Load(), err
}

// pipe sends what the client sent ahead and then carries both ways until both
// are done. It reports the bytes that went up and down.
func (c *client) pipe(server net.Conn) (up, down int64, err error) {
	head, _ := c.br.Peek(c.br.Buffered())
	if len(head) > 0 {
		server.SetWriteDeadline(time.Now().Add(c.s.limits.Idle))
		if _, err := server.Write(head); err != nil {
			reset(server)
			reset(c.conn)
			return 0, 0, err
		}
	}
	ahead := int64(len(head))
	c.br = nil // an idle tunnel needs no buffer
	c.conn.SetDeadline(time.Time{})
	t := c.tunnel(server)
	err = t.run(c.ctx)
	return t.up.Load() + ahead, t.down.Load(), err
}

// flow collects what an event says about one flow.
type flow struct {
	target Target
	via    string
	began  time.Time
}

// The front ends, as an event's via.
const (
	viaHTTP    = "http"
	viaConnect = "connect"
	viaSOCKS   = "socks5"
)

// emitDenied reports a refusal, and with all flows wanted a failure too.
func (c *client) emitDenied(f flow, e *Error) {
	if c.s.Events == nil || !e.Denied() && !c.s.AllFlows {
		return
	}
	ev := event.Event{
		Time: time.Now(), Kind: event.Network, Action: event.Denied, Target: printable(e.Target), Rule: e.Rule, Reason: e.Code,
		Hint: e.Hint, Via: f.via, PID: c.pid, Program: c.program,
	}
	if !e.Denied() {
		ev.Action = event.Noticed
	}
	if e.Addr.IsValid() {
		ev.Address = e.Addr.String()
	}
	c.s.Events.Emit(ev)
}

// emitFlow reports a flow that was served.
func (c *client) emitFlow(f flow, v Verdict, up, down int64) {
	if c.s.Events == nil || !c.s.AllFlows {
		return
	}
	ev := event.Event{
		Time: time.Now(), Kind: event.Network, Action: event.Allowed, Target: f.target.String(), Reason: v.Code,
		Via: f.via, PID: c.pid, Program: c.program, Up: up, Down: down, Duration: time.Since(f.began),
	}
	if v.Rule != nil {
		ev.Rule = v.Rule.Text
	}
	if v.Addr.IsValid() {
		ev.Address = v.Addr.String()
	}
	c.s.Events.Emit(ev)
}

func (s *Server) emitOverload() {
	if s.Events != nil {
		s.Events.Emit(event.Event{Time: time.Now(), Kind: event.Network, Action: event.Denied, Reason: CodeTooMany})
	}
}

// isShortage reports an accept that failed for want of something that comes
// back: descriptors, memory, a client that left before it was accepted.
func isShortage(err error) bool {
	for _, e := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// asError makes any failure of a dial an *Error.
func asError(t Target, err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return connectError(t, err)
}
