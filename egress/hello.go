package egress

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"pinfold/policy"
)

// helloCheck says what the first bytes of a client must be.
type helloCheck struct {
	// name is the host that was allowed, at port.
	name string
	port uint16
	// strict: anything but TLS is refused.
	strict bool
}

// tlsPort is where flows are TLS unless the policy says otherwise.
const tlsPort = 443

// helloFor is the check that an allowed flow needs; nil for none. A flow to an
// address has no name to agree with.
func (d *Decider) helloFor(t Target, v Verdict) *helloCheck {
	if _, err := netip.ParseAddr(v.Name); err == nil || v.Name == "" {
		return nil
	}
	says := d.saysTLS(v.Name, t.Port)
	switch {
	case says != nil && !*says:
		return nil
	case d.verify != nil && !*d.verify:
		return nil
	case t.Port == tlsPort:
		return &helloCheck{name: v.Name, port: t.Port, strict: true}
	case d.verify != nil:
		return &helloCheck{name: v.Name, port: t.Port}
	}
	return nil
}

// saysTLS is what the most specific entry that allows a target says of TLS,
// nil for nothing.
func (d *Decider) saysTLS(name string, port uint16) *bool {
	best := policy.HostPattern{Wildcard: true}
	for _, p := range d.allow {
		if (p.Port == 0 || p.Port == port) && p.MatchesName(name) && bySpecificity(p, best) > 0 {
			best = p
		}
	}
	return best.TLS
}

// bySpecificity is positive where a, which matches the same target as b, says
// more exactly what it means: a name, a longer suffix, a port. Of two alike
// one that says something of TLS counts, and rather the tighter.
func bySpecificity(a, b policy.HostPattern) int {
	rank := func(p policy.HostPattern) (name, says int) {
		if !p.Wildcard {
			name = 1
		}
		if p.TLS != nil {
			says = 1
			if *p.TLS {
				says = 2
			}
		}
		return name, says
	}
	aName, aSays := rank(a)
	bName, bSays := rank(b)
	return cmp.Or(
		cmp.Compare(aName, bName), cmp.Compare(len(a.Name), len(b.Name)),
		cmp.Compare(min(a.Port, 1), min(b.Port, 1)), cmp.Compare(aSays, bSays),
	)
}

// refusePlain is what a plain request is refused for where a flow must be TLS:
// it would go up as it is.
func (d *Decider) refusePlain(t Target, v Verdict) *Error {
	h := d.helloFor(t, v)
	if h == nil {
		return nil
	}
	e := h.judge("", errNotTLS)
	if e != nil {
		e.Target = t.String()
	}
	return e
}

// The bounds of a client's first message: five records are more than any
// client makes of it, and post-quantum key shares and ECH need some 2 KiB.
const (
	maxHello  = 32 << 10
	maxRecord = 16 << 10 // RFC 8446 section 5.1
)

// The numbers of RFC 8446 sections 4, 5.1 and 6, and RFC 6066 section 3.
const (
	recordHandshake = 22
	recordAlert     = 21
	clientHello     = 1
	serverNameExt   = 0
	hostNameType    = 0
)

// unrecognizedName is a fatal alert (112): a TLS client reports it as such.
var unrecognizedName = []byte{recordAlert, 3, 3, 0, 2, 2, 112}

var (
	errNotTLS   = errors.New("it isn't TLS")
	errBadHello = errors.New("its ClientHello can't be read")
)

// readHello reads a client's ClientHello and returns all that it has read, and
// the server name in it ("" where there is none). Its errors are errNotTLS,
// errBadHello, or those of r.
func readHello(r io.Reader) (read []byte, name string, err error) {
	var message []byte
	for {
		head := make([]byte, 5)
		// The first byte by itself: another protocol's first line may be
		// shorter than a record's head.
		n, err := io.ReadFull(r, head[:1])
		if err == nil && head[0] == recordHandshake {
			n, err = io.ReadFull(r, head[1:])
			n++
		}
		read = append(read, head[:n]...)
		if n > 0 && (head[0] != recordHandshake || n > 1 && head[1] != 3) {
			return read, "", errNotTLS
		}
		if err != nil {
			return read, "", err //nolint:wrapcheck // told apart by the caller
		}
		size := int(binary.BigEndian.Uint16(head[3:]))
		if size == 0 || size > maxRecord || len(read)+size > maxHello {
			return read, "", errBadHello
		}
		body := make([]byte, size)
		n, err = io.ReadFull(r, body)
		read = append(read, body[:n]...)
		if err != nil {
			return read, "", err //nolint:wrapcheck // told apart by the caller
		}
		message = append(message, body...)
		if hello, whole := handshake(message); whole {
			name, err = serverName(hello)
			return read, name, err
		}
	}
}

// handshake is the first message of a handshake, once all of it is there.
func handshake(b []byte) (body []byte, whole bool) {
	if len(b) < 4 {
		return nil, false
	}
	if b[0] != clientHello {
		return nil, true // serverName refuses it
	}
	size := int(b[1])<<16 | int(b[2])<<8 | int(b[3])
	if len(b) < 4+size {
		return nil, false
	}
	return b[4 : 4+size], true
}

// cursor reads the vectors of a TLS message; bad is set past the end.
type cursor struct {
	b   []byte
	bad bool
}

func (c *cursor) take(n int) []byte {
	if c.bad || n > len(c.b) {
		c.bad = true
		return nil
	}
	head := c.b[:n]
	c.b = c.b[n:]
	return head
}

// vector takes a vector whose length is in its first size bytes.
func (c *cursor) vector(size int) []byte {
	n := 0
	for _, b := range c.take(size) {
		n = n<<8 | int(b)
	}
	return c.take(n)
}

// serverName finds the name in a ClientHello (RFC 8446 section 4.1.2, RFC 6066
// section 3). With ECH it is the outer one, which the network sees.
func serverName(hello []byte) (string, error) {
	c := &cursor{b: hello}
	c.take(2 + 32) // version, random
	c.vector(1)    // session
	c.vector(2)    // cipher suites
	c.vector(1)    // compression
	if c.bad {
		return "", errBadHello
	}
	if len(c.b) == 0 {
		return "", nil // no extensions
	}
	extensions := &cursor{b: c.vector(2)}
	name, seen := "", false
	for !c.bad && !extensions.bad && len(extensions.b) > 0 {
		kind := extensions.take(2)
		body := extensions.vector(2)
		if extensions.bad || kind[0] != 0 || kind[1] != serverNameExt {
			continue
		}
		if seen {
			return "", errBadHello // which one would the server take?
		}
		seen = true
		var err error
		if name, err = firstName(body); err != nil {
			return "", err
		}
	}
	if c.bad || extensions.bad || len(c.b) > 0 {
		return "", errBadHello
	}
	return name, nil
}

// firstName is the one host name of a server name list.
func firstName(b []byte) (string, error) {
	outer := &cursor{b: b}
	list := &cursor{b: outer.vector(2)}
	kind := list.take(1)
	name := list.vector(2)
	if outer.bad || list.bad || len(outer.b) > 0 || len(list.b) > 0 || kind[0] != hostNameType || len(name) == 0 {
		return "", errBadHello
	}
	return string(name), nil
}

// judge compares what a client said with what was allowed.
func (h *helloCheck) judge(name string, err error) *Error {
	switch {
	case errors.Is(err, errNotTLS) && !h.strict:
		return nil
	case errors.Is(err, errNotTLS):
		at := net.JoinHostPort(h.name, strconv.Itoa(int(h.port)))
		return &Error{Code: CodeNotTLS, Why: "it isn't TLS", Hint: fmt.Sprintf(`{"host": %q, "tls": false}`, at)}
	case err != nil:
		return &Error{Code: CodeTLSName, Why: err.Error()}
	case name == "":
		return nil // it names nobody else
	}
	said, _, isAddr, nerr := policy.NormalizeHost(name)
	if nerr != nil || isAddr || !strings.EqualFold(said, h.name) {
		return &Error{Code: CodeTLSName, Why: "its TLS server name is " + printable(name) + ", not " + h.name}
	}
	return nil
}

// check reads what a client says first and lets it through to the server, or
// answers why not. What the server says meanwhile isn't held back.
func (h *helloCheck) check(client io.Reader, server io.Writer) (sent int, err error) {
	read, name, err := readHello(client)
	switch {
	case len(read) == 0 && errors.Is(err, io.EOF):
		return 0, nil // it has nothing to say
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		err = errBadHello
	case err != nil && !errors.Is(err, errNotTLS) && !errors.Is(err, errBadHello):
		return 0, err
	}
	if e := h.judge(name, err); e != nil {
		return 0, e
	}
	return server.Write(read) //nolint:wrapcheck // told apart by the caller
}

// refuseHello ends a flow whose client said the wrong thing: TLS clients get
// an alert, others an end of file.
func (c *client) refuseHello(e *Error, server net.Conn) {
	server.Close()
	if e.Code == CodeTLSName {
		c.conn.SetWriteDeadline(time.Now().Add(lingerTime))
		c.conn.Write(unrecognizedName)
	}
	c.linger()
}
