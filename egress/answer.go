package egress

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// ReasonHeader carries the code of a refusal.
const ReasonHeader = "X-Pinfold-Reason"

// overload is what one client too many is told, whatever it speaks.
var overload = []byte(rawAnswer(http.StatusServiceUnavailable, CodeTooMany,
	"pinfold: too many connections at once; close some and try again\n", closeAfter))

type connection int

const (
	closeAfter connection = iota
	keepAfter
	closeAfterHead // the answer to HEAD
	keepAfterHead
)

func rawAnswer(status int, code, body string, c connection) string {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", status, http.StatusText(status))
	b.WriteString("Content-Type: text/plain; charset=utf-8\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n")
	b.WriteString(ReasonHeader + ": " + code + "\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n")
	if c == closeAfter || c == closeAfterHead {
		b.WriteString("Connection: close\r\n")
	}
	b.WriteString("\r\n")
	if c == closeAfter || c == keepAfter {
		b.WriteString(body)
	}
	return b.String()
}

// statusOf is the HTTP status for a failure.
func statusOf(e *Error) int {
	switch e.Code {
	case CodeBadHost, CodeBadPort, CodeBadRequest, CodeNotAProxy:
		return http.StatusBadRequest
	case CodeTimeout:
		return http.StatusGatewayTimeout
	case CodeTooMany:
		return http.StatusServiceUnavailable
	}
	if e.Denied() {
		return http.StatusForbidden
	}
	return http.StatusBadGateway
}

// text is the body of an answer: what a person debugging their program sees.
func (e *Error) text() string {
	text := "pinfold: " + e.Error() + "\n"
	switch {
	case e.Hint != "":
		text += "hint: " + e.Advice() + "\n"
	case e.Rule != "" && e.Denied():
		text += fmt.Sprintf("rule: %q\n", e.Rule)
	}
	return text
}

// answerError tells the client why its request wasn't served. It reports
// whether the connection can go on.
func (c *client) answerError(e *Error, method string, keep bool) bool {
	state := closeAfter
	if keep {
		state = keepAfter
	}
	if method == http.MethodHead {
		state += closeAfterHead
	}
	err := c.write([]byte(rawAnswer(statusOf(e), e.Code, e.text(), state)))
	if err != nil {
		return false
	}
	if !keep {
		c.linger()
	}
	return keep
}

// answerBad tells a client whose head couldn't be read; one that has gone or
// stalled is told nothing.
func (c *client) answerBad(err error) {
	var b *badHead
	if !errors.As(err, &b) {
		return
	}
	text := "pinfold: cannot serve the request: " + b.why + " (" + b.code + ")\n"
	if c.write([]byte(rawAnswer(b.status, b.code, text, closeAfter))) == nil {
		c.linger()
	}
}
