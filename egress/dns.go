package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"pinfold/event"
	"pinfold/policy"
)

const (
	// maxQuery is the longest question that is read. Without EDNS a packet
	// holds 512 bytes (RFC 1035 section 4.2.1), and a question is shorter.
	maxQuery = 1500
	// nameTTL is how long programs may keep an answer: it holds for the run.
	nameTTL = 300
	// maxNameConns bounds the clients that ask over TCP.
	maxNameConns = 32
	nameTimeout  = 10 * time.Second
)

// ServeNames answers DNS over a packet socket until it is closed or ctx ends.
// An allowed name has one address, a made-up one; everything else is refused,
// without anybody being asked.
func (t *Transparent) ServeNames(ctx context.Context, conn net.PacketConn) error {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	buf := make([]byte, maxQuery)
	for {
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			return closedOr(ctx, "cannot hear questions for names", err)
		}
		if answer := t.answerName(buf[:n]); answer != nil {
			_, _ = conn.WriteTo(answer, from) // who asked may be gone
		}
	}
}

// ServeNamesTCP is the same over TCP, for programs that use nothing else.
func (t *Transparent) ServeNamesTCP(ctx context.Context, ln net.Listener) error {
	defer ln.Close()
	stop := context.AfterFunc(ctx, func() { ln.Close() })
	defer stop()
	places := make(chan struct{}, maxNameConns)
	for {
		conn, err := ln.Accept()
		if err != nil {
			return closedOr(ctx, "cannot hear questions for names", err)
		}
		select {
		case places <- struct{}{}:
			t.wg.Go(func() {
				defer func() { <-places }()
				t.serveNameConn(ctx, conn)
			})
		default:
			conn.Close()
		}
	}
}

// closedOr is nil for an end that was wanted.
func closedOr(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// serveNameConn answers questions of one connection: each has its length
// before it, as the answers have (RFC 1035 section 4.2.2).
func (t *Transparent) serveNameConn(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	var size [2]byte
	for {
		_ = conn.SetDeadline(time.Now().Add(nameTimeout))
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		query := make([]byte, binary.BigEndian.Uint16(size[:]))
		if len(query) > maxQuery {
			return
		}
		if _, err := io.ReadFull(conn, query); err != nil {
			return
		}
		answer := t.answerName(query)
		if answer == nil {
			return
		}
		if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

// answerName is the answer to one message, nil for none: what isn't a
// question gets no answer.
func (t *Transparent) answerName(query []byte) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil || h.Response {
		return nil
	}
	reply := dnsmessage.Message{Header: dnsmessage.Header{
		ID: h.ID, Response: true, OpCode: h.OpCode, RecursionDesired: h.RecursionDesired, RecursionAvailable: true,
		RCode: dnsmessage.RCodeFormatError,
	}}
	q, err := p.Question()
	if _, more := p.Question(); err == nil && errors.Is(more, dnsmessage.ErrSectionDone) {
		reply.Questions = []dnsmessage.Question{q}
		reply.RCode = dnsmessage.RCodeNotImplemented
		if h.OpCode == 0 {
			reply.RCode = t.look(q, &reply)
		}
	}
	out, err := reply.Pack()
	if err != nil {
		return nil
	}
	return out
}

// look answers a question into reply.
func (t *Transparent) look(q dnsmessage.Question, reply *dnsmessage.Message) dnsmessage.RCode {
	name, _, isAddr, err := policy.NormalizeHost(strings.TrimSuffix(q.Name.String(), "."))
	if err != nil || isAddr || q.Class != dnsmessage.ClassINET {
		return dnsmessage.RCodeRefused
	}
	addr := loopback4
	switch {
	case name == "localhost":
	case !t.knows(name):
		return dnsmessage.RCodeRefused
	case q.Type == dnsmessage.TypeAAAA:
		return dnsmessage.RCodeSuccess // no data
	case q.Type != dnsmessage.TypeA:
		return dnsmessage.RCodeRefused
	default:
		var ok bool
		if addr, ok = t.names.address(name); !ok {
			t.denyName(name, Verdict{Code: CodeTooMany})
			return dnsmessage.RCodeRefused
		}
	}
	if q.Type == dnsmessage.TypeA {
		reply.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: nameTTL},
			Body:   &dnsmessage.AResource{A: addr.As4()},
		}}
	}
	return dnsmessage.RCodeSuccess
}

// knows says whether a name may be reached at some port, and reports one that
// may not.
func (t *Transparent) knows(name string) bool {
	v := t.Decider.decideName(name)
	if !v.Allowed {
		t.denyName(name, v)
	}
	return v.Allowed
}

func (t *Transparent) denyName(name string, v Verdict) {
	if t.Events == nil {
		return
	}
	ev := event.Event{
		Time: time.Now(), Kind: event.Network, Action: event.Denied, Target: printable(name),
		Reason: v.Code, Hint: v.Hint, Via: viaDNS,
	}
	if v.Rule != nil {
		ev.Rule = v.Rule.Text
	}
	t.Events.Emit(ev)
}
