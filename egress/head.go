package egress

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"pinfold/policy"
)

// The bounds of a request's head, in bytes. A first line of 16 KiB is twice
// what RFC 9110 section 4.1 asks recipients to take.
const (
	smallHead = 4 << 10
	maxHead   = 64 << 10
	maxLine   = 16 << 10
)

// head is a request's head as it was sent. net/http parses the same bytes
// again; it is looked at here first because net/http settles ambiguities
// silently (a Content-Length beside chunked is dropped, so is a Host that
// disagrees) where a proxy must refuse (RFC 9112 section 6.1).
type head struct {
	size    int // bytes, with the empty line
	method  string
	target  string
	minor   int // of HTTP/1.minor
	host    []string
	length  []string
	coding  []string
	expect  []string
	auth    []string // Proxy-Authorization
	upgrade bool     // Connection lists it
}

// badHead is a head that is answered rather than served.
type badHead struct {
	status int
	code   string
	why    string
}

func (b *badHead) Error() string { return b.why }

func bad(format string, args ...any) *badHead {
	return &badHead{status: http.StatusBadRequest, code: CodeBadRequest, why: fmt.Sprintf(format, args...)}
}

// readHead waits for a whole head and returns it without consuming it. Line
// ends must be CR LF: whoever takes less than that at one hop and not at the
// next can be made to see two requests where there is one.
func (c *client) readHead() (*head, error) {
	for seen := 0; ; {
		data, _ := c.br.Peek(c.br.Buffered())
		end, err := headEnd(data, seen)
		if err != nil {
			return nil, err
		}
		if end > 0 {
			return parseHead(data[:end])
		}
		seen = len(data)
		if err := c.more(len(data)); err != nil {
			return nil, err
		}
	}
}

// more waits for at least one byte beyond the n that are buffered.
func (c *client) more(n int) error {
	if n >= maxHead {
		return &badHead{http.StatusRequestHeaderFieldsTooLarge, CodeTooLarge, fmt.Sprintf("the head is longer than %d bytes", maxHead)}
	}
	if n == c.br.Size() {
		c.grow()
	}
	_, err := c.br.Peek(n + 1)
	if errors.Is(err, io.EOF) && n > 0 {
		return io.ErrUnexpectedEOF
	}
	return err
}

// grow gives a connection with a long head a buffer that can hold it.
func (c *client) grow() {
	data, _ := c.br.Peek(c.br.Buffered())
	c.br = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(bytes.Clone(data)), c.conn), maxHead)
	c.br.Peek(len(data)) // the clone is read in one go
}

// headEnd finds the end of the head in data, of which the first seen bytes
// were looked at before; zero where it isn't there yet.
func headEnd(data []byte, seen int) (int, error) {
	for i := seen; i < len(data); i++ {
		switch b := data[i]; {
		case b == '\n' && (i == 0 || data[i-1] != '\r'):
			return 0, bad("a line of the head doesn't end in CR LF")
		case b == '\n' && i >= 3 && data[i-2] == '\n':
			return i + 1, nil
		case b == 0x7f, b < ' ' && b != '\r' && b != '\n' && b != '\t':
			return 0, bad("the head holds the control character 0x%02x", b)
		case b != '\n' && i > 0 && data[i-1] == '\r':
			return 0, bad("a line of the head doesn't end in CR LF")
		}
	}
	if len(data) > maxLine && bytes.IndexByte(data[:maxLine], '\n') < 0 {
		return 0, &badHead{http.StatusRequestURITooLong, CodeTooLong, fmt.Sprintf("the first line is longer than %d bytes", maxLine)}
	}
	return 0, nil
}

func parseHead(data []byte) (*head, error) {
	h := &head{size: len(data)}
	first, rest, _ := strings.Cut(string(data), "\r\n")
	if len(first) > maxLine {
		return nil, &badHead{http.StatusRequestURITooLong, CodeTooLong, fmt.Sprintf("the first line is longer than %d bytes", maxLine)}
	}
	if err := h.parseFirst(first); err != nil {
		return nil, err
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(rest, "\r\n\r\n"), "\r\n") {
		if line == "" { // no fields at all
			continue
		}
		if err := h.parseField(line); err != nil {
			return nil, err
		}
	}
	return h, h.check()
}

func (h *head) parseFirst(line string) error {
	parts := strings.Split(line, " ")
	if len(parts) != 3 || !httpguts.ValidHeaderFieldName(parts[0]) {
		return bad("the first line isn't METHOD TARGET HTTP/1.1")
	}
	h.method, h.target = parts[0], parts[1]
	switch parts[2] {
	case "HTTP/1.1":
		h.minor = 1
	case "HTTP/1.0":
	default:
		return &badHead{http.StatusHTTPVersionNotSupported, CodeUnsupported, "only HTTP/1.1 and HTTP/1.0 are spoken here"}
	}
	if h.target == "" || strings.ContainsAny(h.target, "\t#") {
		return bad("the request target holds a character that it can't")
	}
	return nil
}

func (h *head) parseField(line string) error {
	name, value, ok := strings.Cut(line, ":")
	if !ok || !httpguts.ValidHeaderFieldName(name) {
		// A blank before the colon and a folded line both end here; servers
		// have disagreed about either.
		return bad("a header field has no valid name")
	}
	value = strings.Trim(value, " \t")
	if !httpguts.ValidHeaderFieldValue(value) {
		return bad("the value of the field %s holds a control character", name)
	}
	switch strings.ToLower(name) {
	case "host":
		h.host = append(h.host, value)
	case "content-length":
		h.length = append(h.length, value)
	case "transfer-encoding":
		h.coding = append(h.coding, value)
	case "expect":
		h.expect = append(h.expect, value)
	case "proxy-authorization":
		h.auth = append(h.auth, value)
	case "connection":
		h.upgrade = h.upgrade || httpguts.HeaderValuesContainsToken([]string{value}, "upgrade")
	}
	return nil
}

// check refuses what two hops could read in two ways.
func (h *head) check() error {
	switch {
	case len(h.length) > 1:
		return bad("it has more than one Content-Length")
	case len(h.length) > 0 && len(h.coding) > 0:
		return bad("it has both Content-Length and Transfer-Encoding")
	case len(h.length) == 1 && !isDigits(h.length[0]):
		return bad("its Content-Length isn't a number")
	case len(h.coding) > 1, len(h.coding) == 1 && !strings.EqualFold(h.coding[0], "chunked"):
		return bad("its Transfer-Encoding is something other than chunked")
	case len(h.coding) == 1 && h.minor == 0:
		return bad("HTTP/1.0 has no Transfer-Encoding")
	case len(h.host) > 1:
		return bad("it has more than one Host")
	case len(h.host) == 0 && h.minor == 1 && h.method != http.MethodConnect:
		return bad("it has no Host")
	case len(h.expect) > 1, len(h.expect) == 1 && !strings.EqualFold(h.expect[0], "100-continue"):
		return &badHead{http.StatusExpectationFailed, CodeUnsupported, "only 100-continue can be expected"}
	case h.method == http.MethodConnect && len(h.length)+len(h.coding) > 0:
		return bad("CONNECT has no body")
	case h.method == http.MethodTrace:
		return &badHead{http.StatusMethodNotAllowed, CodeUnsupported, "TRACE isn't passed on"}
	}
	return nil
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// agrees reports whether the Host field, where there is one, names the
// target. A Host without a port agrees with any: what is passed on is made
// from the target, so nothing hangs on it.
func (h *head) agrees(t Target) bool {
	if len(h.host) == 0 {
		return true
	}
	// What is spelled alike is meant alike: an IPv6 address without brackets
	// has a port in the target, so it has one here.
	if h.method == http.MethodConnect && h.host[0] == h.target {
		return true
	}
	host, port := h.host[0], t.Port
	if i := lastColon(host); i >= 0 && strings.Count(host[:i], ":") == 0 || i >= 0 && strings.HasSuffix(host[:i], "]") {
		p, ok := parsePort(host[i+1:])
		if !ok {
			return false
		}
		host, port = host[:i], p
	}
	want, _, _, err := policy.NormalizeHost(t.Host)
	if err != nil {
		return false
	}
	got, _, _, err := policy.NormalizeHost(host)
	return err == nil && got == want && port == t.Port
}

// hopByHop are the fields that end at this hop, beside those that Connection
// names (RFC 9110 section 7.6.1) and all that begin with Proxy-.
var hopByHop = []string{"Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings"}

// dropHopByHop takes the fields out that end at this hop.
func dropHopByHop(h http.Header) {
	for _, list := range h["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for name := range h {
		if slices.Contains(hopByHop, name) || strings.HasPrefix(strings.ToLower(name), "proxy-") {
			delete(h, name)
		}
	}
}
