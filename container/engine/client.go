package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// client speaks HTTP over one unix socket.
type client struct {
	socket string
	http   *http.Client
	prefix string // "/v1.41"
}

// maxAnswer bounds what an engine may answer at once: a listing of 10,000
// containers is some 30 MB.
const maxAnswer = 64 << 20

func newClient(socket string) *client {
	c := &client{socket: socket}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return c.dial(ctx) }
	t := &http.Transport{DialContext: dial, MaxIdleConns: 4, IdleConnTimeout: 30 * time.Second, DisableCompression: true}
	c.http = &http.Client{Transport: t, CheckRedirect: noRedirect}
	return c
}

func (c *client) dial(ctx context.Context) (*net.UnixConn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", c.socket)
	if err != nil {
		return nil, err
	}
	u, ok := conn.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(errors.New("internal error: a unix socket's connection is none"), conn.Close())
	}
	return u, nil
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func (c *client) close() { c.http.CloseIdleConnections() }

// request is one call of the API.
type request struct {
	method, path string
	query        url.Values
	body         any       // sent as JSON
	stream       io.Reader // sent as it is, of type contentType
	contentType  string
	bare         bool // without the version's prefix
}

// statusError is an answer that isn't a success.
type statusError struct {
	Status  int
	Message string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("the engine answered %d: %s", e.Status, e.Message)
}

func isStatus(err error, status int) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && e.Status == status
}

// unreachable reports whether an error means that nobody answered, as
// opposed to an answer that says no.
func unreachable(err error) bool {
	if err == nil {
		return false
	}
	_, answered := errors.AsType[*statusError](err)
	return !answered && (errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF))
}

// do sends a request and answers the response, whose body the caller closes.
// Any status of 300 or more is a *statusError, 304 included.
func (c *client) do(ctx context.Context, r request) (*http.Response, error) {
	body, kind, err := r.content()
	if err != nil {
		return nil, err
	}
	prefix := c.prefix
	if r.bare {
		prefix = ""
	}
	u := url.URL{Scheme: "http", Host: "engine", Path: prefix + r.path, RawQuery: r.query.Encode()}
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), body)
	if err != nil {
		return nil, err
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, unwrapURL(err)
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return nil, failure(resp)
	}
	return resp, nil
}

func (r request) content() (io.Reader, string, error) {
	switch {
	case r.stream != nil:
		return r.stream, r.contentType, nil
	case r.body != nil:
		text, err := json.Marshal(r.body)
		return bytes.NewReader(text), "application/json", err
	}
	return nil, "", nil
}

// unwrapURL leaves net/http's "Get \"http://engine/…\":" out of a message.
func unwrapURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// failure reads what an engine says of a request it refuses.
func failure(resp *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	err = errors.Join(err, resp.Body.Close())
	var said struct {
		Message string `json:"message"`
		Cause   string `json:"cause"`
	}
	if json.Unmarshal(text, &said) != nil || said.Message == "" {
		said.Message = strings.TrimSpace(string(text))
	}
	if said.Message == "" {
		said.Message = http.StatusText(resp.StatusCode)
	}
	return errors.Join(&statusError{Status: resp.StatusCode, Message: said.Message}, err)
}

// call sends a request and decodes the answer into out, where it isn't nil.
func (c *client) call(ctx context.Context, r request, out any) (err error) {
	resp, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return err
	case len(text) > maxAnswer:
		return fmt.Errorf("the engine's answer is longer than %d bytes", maxAnswer)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("cannot read the engine's answer: %w", err)
	}
	return nil
}

// looks and firstPause bound how often, and how soon, something is asked again.
const (
	looks      = 4
	firstPause = 50 * time.Millisecond
)

// look is call for a question. Podman answers 500 about a container that is
// being removed at that moment; asked again it knows.
func (c *client) look(ctx context.Context, r request, out any) error {
	for try := 1; ; try++ {
		err := c.call(ctx, r, out)
		if try == looks || !isStatus(err, http.StatusInternalServerError) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(firstPause << (try - 1)):
		}
	}
}
