package egress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/http/httpguts"
)

// framing is how the end of an answer's body is marked.
type framing int

const (
	noBody framing = iota
	sized
	chunked
	untilClose
)

// bodyBuffer is what one read of an answer's body takes: big enough that
// system calls don't count, small enough for a hundred of them.
const bodyBuffer = 128 << 10

var bodyBuffers = sync.Pool{New: func() any { return new([bodyBuffer]byte) }}

// respond passes an answer on. It reports whether the client connection can
// take another request, and whether the answer came whole.
func (x *exchange) respond(resp *http.Response) (again, whole bool) {
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return x.upgrade(resp), false
	}
	f := x.framingOf(resp)
	keep := x.keep && f != untilClose && x.body.complete()
	err := x.sendHead(resp, f, keep)
	if err == nil && f != noBody {
		err = x.sendBody(resp, f)
	}
	all := x.body.end()
	switch {
	case err != nil:
		reset(x.c.conn) // or a short body could pass for a whole one
		return false, false
	case keep && all:
		x.c.served = true
		return true, true
	}
	x.c.linger()
	return false, all
}

func (x *exchange) framingOf(resp *http.Response) framing {
	switch {
	case x.h.method == http.MethodHead, resp.StatusCode == http.StatusNoContent, resp.StatusCode == http.StatusNotModified:
		return noBody
	case resp.ContentLength >= 0:
		return sized
	case x.h.minor == 1:
		return chunked
	}
	return untilClose
}

func (x *exchange) sendHead(resp *http.Response, f framing, keep bool) error {
	h := resp.Header
	length := h.Get("Content-Length")
	dropHopByHop(h)
	h.Del("Content-Length")
	switch f {
	case noBody:
		// HEAD and 304 tell the length of what they don't send.
		if length != "" && resp.StatusCode != http.StatusNoContent {
			h.Set("Content-Length", length)
		}
	case sized:
		h.Set("Content-Length", strconv.FormatInt(resp.ContentLength, 10))
	case chunked:
		h.Set("Transfer-Encoding", "chunked")
		if names := trailerNames(resp.Trailer); names != "" {
			h.Set("Trailer", names)
		}
	case untilClose:
	}
	if !keep {
		h.Set("Connection", "close")
	}
	return x.sendFinal(resp, h)
}

func (x *exchange) sendFinal(resp *http.Response, h http.Header) error {
	_, reason, _ := strings.Cut(resp.Status, " ")
	x.wmu.Lock()
	defer x.wmu.Unlock()
	x.responded = true
	return x.c.write(headBytes(resp.StatusCode, reason, h))
}

// headBytes spells a head out. Header.Write takes line breaks out of values.
func headBytes(code int, reason string, h http.Header) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %03d %s\r\n", code, printable(reason))
	h.Write(&b)
	b.WriteString("\r\n")
	return b.Bytes()
}

func trailerNames(t http.Header) string {
	var names []string
	for name := range t {
		if httpguts.ValidTrailerHeader(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// sendBody copies a body piece by piece as it comes, so that a stream of
// events isn't held up. Only the idle timer ends it.
func (x *exchange) sendBody(resp *http.Response, f framing) error {
	// The end of the exchange's context ends every wait for the server.
	conn := x.o.conn // the function may run late
	stop := context.AfterFunc(x.ctx, func() { conn.SetDeadline(longAgo) })
	defer stop()
	if f == sized && x.canSplice() {
		return x.spliceBody(resp.ContentLength)
	}
	return x.copyBody(resp, f)
}

// canSplice reports that both ends are bare TCP.
func (x *exchange) canSplice() bool {
	_, from := x.o.conn.(*net.TCPConn)
	_, to := x.c.conn.(*net.TCPConn)
	return from && to
}

// spliceBody sends a body of n bytes: what the reader holds, then the rest
// through the kernel, as long as something moves within the idle timeout.
func (x *exchange) spliceBody(n int64) error {
	head, _ := x.o.br.Peek(int(min(n, int64(x.o.br.Buffered()))))
	if err := x.sendPiece(head, sized); err != nil {
		return err
	}
	x.o.br.Discard(len(head))
	x.down += int64(len(head))
	n -= int64(len(head))
	for n > 0 {
		moved, err := x.spliceSlice(n)
		n -= moved
		x.down += moved
		if moved > 0 {
			x.touch()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sliceTime is how long one splice may run before the clock is looked at.
const sliceTime = 5 * time.Second

// spliceSlice moves at most n bytes. As in copyBulk the read deadline strikes
// with the pipe empty; a client that takes nothing for the idle timeout meets
// the write deadline, which is the end.
func (x *exchange) spliceSlice(n int64) (int64, error) {
	idle := x.c.s.limits.Idle
	writeBy := time.Now().Add(sliceTime + idle)
	x.o.conn.SetReadDeadline(time.Now().Add(min(sliceTime, idle/8)))
	x.c.conn.SetWriteDeadline(writeBy)
	if x.ctx.Err() != nil { // its deadline has just been overwritten
		return 0, context.Cause(x.ctx)
	}
	to, _ := x.c.conn.(*net.TCPConn) // canSplice said so
	moved, err := to.ReadFrom(&io.LimitedReader{R: x.o.conn, N: min(n, bulkSlice)})
	switch {
	case err != nil && !isReadTimeout(err, writeBy):
		return moved, err
	case err == nil && moved < min(n, bulkSlice):
		return moved, io.ErrUnexpectedEOF
	}
	return moved, nil
}

// copyBody copies a body that must be framed again, or isn't bare TCP.
func (x *exchange) copyBody(resp *http.Response, f framing) error {
	buf := bodyBuffers.Get().(*[bodyBuffer]byte)
	defer bodyBuffers.Put(buf)
	for {
		n, err := resp.Body.Read(buf[:])
		x.touch()
		x.down += int64(n)
		if n > 0 {
			if err := x.sendPiece(buf[:n], f); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return x.sendEnd(resp, f)
		case err != nil:
			return err
		}
	}
}

func (x *exchange) sendPiece(p []byte, f framing) error {
	x.c.conn.SetWriteDeadline(time.Now().Add(x.c.s.limits.Idle))
	if f != chunked {
		_, err := x.c.conn.Write(p)
		return err
	}
	pieces := net.Buffers{[]byte(strconv.FormatInt(int64(len(p)), 16) + "\r\n"), p, []byte("\r\n")}
	_, err := pieces.WriteTo(x.c.conn)
	return err
}

func (x *exchange) sendEnd(resp *http.Response, f framing) error {
	if f != chunked {
		return nil
	}
	var b bytes.Buffer
	b.WriteString("0\r\n")
	for name := range resp.Trailer {
		if !httpguts.ValidTrailerHeader(name) {
			delete(resp.Trailer, name)
		}
	}
	resp.Trailer.Write(&b)
	b.WriteString("\r\n")
	return x.c.write(b.Bytes())
}

// upgrade turns the exchange into a tunnel (WebSocket).
func (x *exchange) upgrade(resp *http.Response) bool {
	protocol := resp.Header.Get("Upgrade")
	if x.req.Header.Get("Upgrade") == "" || !strings.EqualFold(protocol, x.req.Header.Get("Upgrade")) {
		return x.fail(x.problem(CodeBadUpstream, "it switched to a protocol that wasn't asked for", nil))
	}
	dropHopByHop(resp.Header)
	resp.Header.Set("Connection", "Upgrade")
	resp.Header.Set("Upgrade", protocol)
	if !x.body.end() || x.sendFinal(resp, resp.Header) != nil {
		reset(x.c.conn)
		return false
	}
	x.idle.Stop()
	o := x.o
	x.v = x.verdict()
	up, down, _ := x.c.pipe(withPrefix(o.conn, o.br))
	x.body.add(up)
	x.down += down
	return false
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
