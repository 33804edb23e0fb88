package egress

import (
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// serveHTTP serves requests until one ends the connection. The first byte of
// the first one is there already.
func (c *client) serveHTTP() {
	defer c.dropOrigin()
	for c.serveRequest() {
		c.conn.SetReadDeadline(time.Now().Add(c.s.limits.KeepAlive))
		if _, err := c.br.Peek(1); err != nil {
			return
		}
	}
}

// serveRequest reports whether another request may follow.
func (c *client) serveRequest() bool {
	c.conn.SetReadDeadline(time.Now().Add(c.s.limits.Head))
	c.skipEmptyLine()
	h, err := c.readHead()
	if err != nil {
		c.answerBad(err)
		return false
	}
	if !c.admits(h) {
		return false
	}
	if h.method == http.MethodConnect {
		c.br.Discard(h.size)
		c.serveConnect(h)
		return false
	}
	// The size of the buffer holds the head, so ReadRequest reads the very
	// bytes that were looked at.
	req, err := http.ReadRequest(c.br)
	if err != nil {
		c.answerBad(bad("it isn't HTTP: %s", printable(rootCause(err))))
		return false
	}
	return c.servePlain(h, req)
}

// skipEmptyLine drops a CR LF before a request line, which RFC 9112 section
// 2.2 asks servers to bear with.
func (c *client) skipEmptyLine() {
	if b, err := c.br.Peek(2); err == nil && string(b) == "\r\n" {
		c.br.Discard(2)
	}
}

// connected is the answer that opens a tunnel.
const connected = "HTTP/1.1 200 Connection established\r\n\r\n"

func (c *client) serveConnect(h *head) {
	f := flow{via: viaConnect, began: time.Now()}
	t, e := ParseTarget(h.target)
	if e != nil {
		c.refuse(f, e, h.method, false)
		return
	}
	if f.target = t; !h.agrees(t) {
		c.answerBad(bad("its Host isn't the host it asks for"))
		return
	}
	server, v, err := c.s.Dialer.Dial(c.ctx, t)
	if err != nil {
		c.refuse(f, asError(t, err), h.method, false)
		return
	}
	defer server.Close()
	if c.write([]byte(connected)) != nil {
		return
	}
	c.carry(f, v, server)
}

// refuse reports and answers; it says whether the connection can go on.
func (c *client) refuse(f flow, e *Error, method string, keep bool) bool {
	c.emitDenied(f, e)
	return c.answerError(e, method, keep)
}

// servePlain serves a request in absolute form.
func (c *client) servePlain(h *head, req *http.Request) bool {
	f := flow{via: viaHTTP, began: time.Now()}
	// A body that nobody reads would be taken for the next request.
	keep := req.Body == http.NoBody && wantsKeepAlive(h, req)
	t, e := plainTarget(h.target, req.URL)
	if e != nil {
		return c.refuse(f, e, h.method, keep)
	}
	if f.target = t; !h.agrees(t) {
		c.answerBad(bad("its Host isn't the host it asks for"))
		return false
	}
	v := c.s.Decider.Decide(t)
	if e := v.err(t); e != nil {
		return c.refuse(f, e, h.method, keep)
	}
	if e := c.s.Decider.refusePlain(t, v); e != nil {
		return c.refuse(f, e, h.method, keep)
	}
	x := c.newExchange(h, req, f, v)
	defer x.cancel(nil)
	return x.run()
}

func wantsKeepAlive(h *head, req *http.Request) bool {
	return h.minor == 1 && !req.Close
}

// plainTarget reads the authority of an absolute-form target. User names in
// it are dropped: only a client may turn them into a field.
func plainTarget(raw string, u *url.URL) (Target, *Error) {
	scheme, _, absolute := strings.Cut(raw, "://")
	switch {
	case !absolute || strings.HasPrefix(raw, "/"):
		return Target{}, &Error{Code: CodeNotAProxy, Why: "this is pinfold's proxy, not a web server: " +
			"it takes requests in absolute form (GET http://host/path), CONNECT and SOCKS5"}
	case strings.EqualFold(scheme, "https"):
		return Target{}, &Error{Code: CodeBadRequest, Target: u.Host, Why: "https goes through CONNECT"}
	case !strings.EqualFold(scheme, "http"):
		return Target{}, &Error{Code: CodeBadRequest, Target: u.Host, Why: "only http URLs are served"}
	}
	t := Target{Host: hostOf(u), Port: 80}
	if p := u.Port(); p != "" {
		port, ok := parsePort(p)
		if !ok {
			return Target{}, &Error{Code: CodeBadPort, Target: u.Host, Why: "its port isn't a number from 1 to 65535"}
		}
		t.Port = port
	}
	return t, nil
}

// hostOf keeps the brackets of an address, so that a name in brackets isn't
// taken for a name.
func hostOf(u *url.URL) string {
	if strings.HasPrefix(u.Host, "[") {
		return u.Host[:strings.LastIndexByte(u.Host, ']')+1]
	}
	return u.Hostname()
}

// setTarget makes an outgoing request of an incoming one: the address and the
// Host are ours, built from what was decided on, not what the client wrote.
func setTarget(req *http.Request, v Verdict, port uint16) {
	req.URL.Scheme, req.URL.User = "http", nil
	req.URL.Host = net.JoinHostPort(v.Name, strconv.Itoa(int(port)))
	req.Host, req.RequestURI = req.URL.Host, ""
	if port == 80 {
		req.Host = strings.TrimSuffix(req.Host, ":80")
	}
}
