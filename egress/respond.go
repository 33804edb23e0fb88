package egress

import (
	"bytes"
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

// respond passes an answer on and reports whether the client connection can
// take another request.
func (x *exchange) respond(resp *http.Response) bool {
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return x.upgrade(resp)
	}
	f := x.framingOf(resp)
	keep := x.keep && f != untilClose && x.body.complete()
	err := x.sendHead(resp, f, keep)
	if err == nil && f != noBody {
		err = x.sendBody(resp, f)
	}
	whole := x.body.end()
	switch {
	case err != nil:
		reset(x.c.conn) // or a short body could pass for a whole one
		return false
	case keep && whole:
		return true
	}
	x.c.linger()
	return false
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
	h.Write(&b) //nolint:errcheck // a buffer takes everything
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
	buf := bodyBuffers.Get().(*[bodyBuffer]byte) //nolint:forcetypeassert // the pool holds nothing else
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
			return err //nolint:wrapcheck // told apart by the caller
		}
	}
}

func (x *exchange) sendPiece(p []byte, f framing) error {
	x.c.conn.SetWriteDeadline(time.Now().Add(x.c.s.limits.Idle))
	if f != chunked {
		_, err := x.c.conn.Write(p)
		return err //nolint:wrapcheck // told apart by the caller
	}
	pieces := net.Buffers{[]byte(strconv.FormatInt(int64(len(p)), 16) + "\r\n"), p, []byte("\r\n")}
	_, err := pieces.WriteTo(x.c.conn)
	return err //nolint:wrapcheck // told apart by the caller
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
	resp.Trailer.Write(&b) //nolint:errcheck // a buffer takes everything
	b.WriteString("\r\n")
	return x.c.write(b.Bytes())
}

// upgraded is a server connection after 101: what it sent ahead lies in the
// transport's buffer, which the answer's body reads first.
type upgraded struct {
	net.Conn
	body io.Reader
}

func (u *upgraded) Read(p []byte) (int, error) { return u.body.Read(p) } //nolint:wrapcheck // transparent

// CloseWrite passes a half-close on.
func (u *upgraded) CloseWrite() error { return closeWrite(u.Conn) }

// upgrade turns the exchange into a tunnel (WebSocket).
func (x *exchange) upgrade(resp *http.Response) bool {
	protocol := resp.Header.Get("Upgrade")
	if x.req.Header.Get("Upgrade") == "" || !strings.EqualFold(protocol, x.req.Header.Get("Upgrade")) || x.server == nil {
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
	up, down, _ := x.c.pipe(&upgraded{Conn: x.server, body: resp.Body})
	x.body.mu.Lock()
	x.body.n += up
	x.body.mu.Unlock()
	x.down += down
	return false
}

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
