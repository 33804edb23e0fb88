package egress

import (
	"bufio"
	"net/http"
	"strings"
	"time"
)

// Head is what the fuzz tests compare with net/http's reading.
type Head struct {
	Size           int
	Method, Target string
	Length, Coding []string
}

// ReadHead looks at a request's head as the proxy does.
func ReadHead(data string) (Head, error) {
	c := &client{br: bufio.NewReaderSize(strings.NewReader(data), maxHead)}
	h, err := c.readHead()
	if err != nil {
		return Head{}, err
	}
	return Head{h.size, h.method, h.target, h.length, h.coding}, nil
}

// Outgoing is the request that would be sent to the server for an incoming
// one; nil where it is refused.
func Outgoing(data string, d *Decider) (*http.Request, Target) {
	c := &client{br: bufio.NewReaderSize(strings.NewReader(data), maxHead), s: &Server{limits: Limits{}.withDefaults()}}
	h, err := c.readHead()
	if err != nil || h.method == http.MethodConnect {
		return nil, Target{}
	}
	req, err := http.ReadRequest(c.br)
	if err != nil {
		return nil, Target{}
	}
	t, e := plainTarget(h.target, req.URL)
	if e != nil || !h.agrees(t) {
		return nil, Target{}
	}
	v := d.Decide(t)
	if !v.Allowed {
		return nil, Target{}
	}
	x := &exchange{c: c, h: h, req: req, v: v, f: flow{target: t}}
	x.body = newBody(x, req.Body, false)
	src := req.Body
	x.prepare()
	req.Body = src
	return req, t
}

// For the tests of what TLS clients say.
var (
	ReadHello   = readHello
	ErrNotTLS   = errNotTLS
	ErrBadHello = errBadHello
)

// OwnAddrs are a dialer's: read once, and again when they have changed.
type OwnAddrs = ownAddrs

// Get is what a dialer asks.
func (o *ownAddrs) Get() (HostAddrs, error) { return o.get() }

// Fresh keeps what is known for longer, so that time alone changes nothing.
func (o *ownAddrs) Fresh(d time.Duration) { o.until = time.Now().Add(d) }
