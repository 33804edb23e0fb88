package egress_test

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"pinfold/egress"
	"pinfold/event"
	"pinfold/policy"
)

// hello is what a real TLS client says first.
func hello(t testing.TB, name string) []byte {
	t.Helper()
	return helloOf(t, &tls.Config{ServerName: name, InsecureSkipVerify: true})
}

// echHello encrypts the name that is meant, and says another one in clear
// (RFC 9849): the configuration is what a DNS record would hold.
func echHello(t testing.TB, inner, outer string) []byte {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	content := append([]byte{7, 0, 0x20, 0, 32}, key.PublicKey().Bytes()...) // X25519
	content = append(content, 0, 4, 0, 1, 0, 1, 0, byte(len(outer)))         // HKDF-SHA256, AES-128-GCM
	content = append(append(content, outer...), 0, 0)
	list := append([]byte{0xfe, 0x0d, 0, byte(len(content))}, content...)
	said := helloOf(t, &tls.Config{
		ServerName: inner, MinVersion: tls.VersionTLS13,
		EncryptedClientHelloConfigList: append([]byte{0, byte(len(list))}, list...),
	})
	if bytes.Contains(said, []byte(inner)) || !bytes.Contains(said, []byte(outer)) {
		t.Fatal("the client didn't encrypt its name, so this shows nothing")
	}
	return said
}

func helloOf(t testing.TB, config *tls.Config) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() {
		tls.Client(theirs, config).Handshake()
		theirs.Close()
	}()
	head := make([]byte, 5)
	if _, err := io.ReadFull(ours, head); err != nil {
		t.Fatal(err)
	}
	body := make([]byte, int(head[3])<<8|int(head[4]))
	if _, err := io.ReadFull(ours, body); err != nil {
		t.Fatal(err)
	}
	return append(head, body...)
}

// split is the same handshake message in records of n bytes.
func split(record []byte, n int) []byte {
	var out []byte
	for body := record[5:]; len(body) > 0; {
		m := min(n, len(body))
		out = append(out, record[0], record[1], record[2], byte(m>>8), byte(m))
		out = append(out, body[:m]...)
		body = body[m:]
	}
	return out
}

func TestReadHello(t *testing.T) {
	t.Parallel()
	good := hello(t, "api.example")
	for name, tc := range map[string]struct {
		in   []byte
		want string
		err  error
	}{
		"whole":           {good, "api.example", nil},
		"in records":      {split(good, 17), "api.example", nil},
		"with more":       {append(bytes.Clone(good), "more"...), "api.example", nil},
		"no name":         {hello(t, ""), "", nil},
		"http":            {[]byte("GET / HTTP/1.1\r\n\r\n"), "", egress.ErrNotTLS},
		"one byte":        {[]byte("x"), "", egress.ErrNotTLS},
		"another version": {[]byte{22, 9, 9, 0, 1, 1}, "", egress.ErrNotTLS},
		"an empty record": {[]byte{22, 3, 1, 0, 0}, "", egress.ErrBadHello},
		"a long record":   {[]byte{22, 3, 1, 0xff, 0xff}, "", egress.ErrBadHello},
		"a server hello":  {[]byte{22, 3, 1, 0, 4, 2, 0, 0, 0}, "", egress.ErrBadHello},
		"cut":             {good[:40], "", io.ErrUnexpectedEOF},
		"nothing":         {nil, "", io.EOF},
	} {
		read, got, err := egress.ReadHello(bytes.NewReader(tc.in))
		if got != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%s: %q, %v, wanted %q, %v", name, got, err, tc.want, tc.err)
		}
		if !bytes.HasPrefix(tc.in, read) {
			t.Errorf("%s: what was read isn't what was said", name)
		}
	}
}

func FuzzReadHello(f *testing.F) {
	f.Add(hello(f, "api.example"))
	f.Add([]byte{22, 3, 1, 0, 4, 1, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		read, name, err := egress.ReadHello(bytes.NewReader(b))
		if !bytes.HasPrefix(b, read) || err != nil && name != "" {
			t.Errorf("read %d bytes, name %q, %v", len(read), name, err)
		}
	})
}

// tlsCase is one flow to port 443 of front.example, or to another port.
type tlsCase struct {
	say    []byte
	port   uint16
	verify *bool
	tls    *bool // of the entry
	want   string
}

func TestTLSNames(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	good, bad := hello(t, "front.example"), hello(t, "hidden.example")
	for name, tc := range map[string]tlsCase{
		"agrees":              {good, 443, nil, nil, egress.CodeAllowed},
		"in capitals":         {hello(t, "FRONT.example"), 443, nil, nil, egress.CodeAllowed},
		"disagrees":           {bad, 443, nil, nil, egress.CodeTLSName},
		"no name":             {hello(t, ""), 443, nil, nil, egress.CodeAllowed},
		"ECH, outer agrees":   {echHello(t, "hidden.example", "front.example"), 443, nil, nil, egress.CodeAllowed},
		"ECH, inner agrees":   {echHello(t, "front.example", "hidden.example"), 443, nil, nil, egress.CodeTLSName},
		"in records":          {split(bad, 9), 443, nil, nil, egress.CodeTLSName},
		"not TLS":             {[]byte("SSH-2.0-x\r\n"), 443, nil, nil, egress.CodeNotTLS},
		"a short word":        {[]byte("hi"), 443, nil, nil, egress.CodeNotTLS},
		"broken":              {bad[:50], 443, nil, nil, egress.CodeTLSName},
		"said not to be":      {[]byte("SSH-2.0-x\r\n"), 443, nil, &no, egress.CodeAllowed},
		"switched off":        {bad, 443, &no, nil, egress.CodeAllowed},
		"another port":        {bad, 8443, nil, nil, egress.CodeAllowed},
		"every port":          {bad, 8443, &yes, nil, egress.CodeTLSName},
		"every port, agrees":  {good, 8443, &yes, nil, egress.CodeAllowed},
		"every port, not TLS": {[]byte("hi"), 8443, &yes, nil, egress.CodeAllowed},
		"nothing":             {nil, 443, nil, nil, egress.CodeAllowed},
	} {
		for _, front := range []string{"connect", "transparent", "socks5"} {
			t.Run(name+"/"+front, func(t *testing.T) {
				t.Parallel()
				tc.run(t, front)
			})
		}
	}
}

func (tc tlsCase) run(t *testing.T, front string) {
	list := patterns(t, []string{"front.example"})
	list[0].TLS = tc.tls
	tc.through(t, front, list)
}

// through goes the way to the server where these are allowed.
func (tc tlsCase) through(t *testing.T, front string, list []policy.HostPattern) event.Event {
	l := newLab(t, labConfig{})
	d := egress.NewDecider(policy.Network{Allow: list, VerifyTLSName: tc.verify})
	l.server.Decider, l.server.Dialer.Decider = d, d
	heard := make(chan []byte, 1)
	l.raw("front.example", int(tc.port), func(c net.Conn) {
		b, _ := io.ReadAll(c)
		heard <- b
	})
	conn, r := openBy(t, l, front, tc.port)
	conn.Write(tc.say)
	conn.CloseWrite()
	conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	answer, err := io.ReadAll(r)
	ev := l.events.wait(t, func(e event.Event) bool { return e.Via == front })
	got := <-heard
	if ev.Reason != tc.want || ev.Target != l.target(tc.port) {
		t.Errorf("event %+v, wanted reason %s", ev, tc.want)
	}
	if tc.want == egress.CodeAllowed {
		if !bytes.Equal(got, tc.say) {
			t.Errorf("the server heard %d bytes of %d", len(got), len(tc.say))
		}
		return ev
	}
	if len(got) != 0 || err != nil {
		t.Errorf("the server heard %q; the client's end: %v", got, err)
	}
	if alert := strings.HasPrefix(string(answer), "\x15\x03"); alert != (tc.want == egress.CodeTLSName) {
		t.Errorf("the client was told %q", answer)
	}
	return ev
}

func (l *lab) target(port uint16) string {
	return egress.Target{Host: "front.example", Port: port}.String()
}

// openBy opens a tunnel to front.example by one of the ways.
func openBy(t *testing.T, l *lab, front string, port uint16) (*net.TCPConn, io.Reader) {
	t.Helper()
	switch front {
	case "connect":
		return l.connect(l.target(port))
	case "socks5":
		conn := l.dial()
		conn.Write(append(append([]byte{5, 1, 0, 5, 1, 0, 3, 13}, "front.example"...), byte(port>>8), byte(port)))
		if _, err := io.ReadFull(conn, make([]byte, 2+10)); err != nil {
			t.Fatal(err)
		}
		return conn, conn
	}
	c := newCaptured(t, l)
	addr, _ := c.address("front.example")
	conn, ok := c.open(netip.AddrPortFrom(addr, port))
	if !ok {
		t.Fatal("refused")
	}
	t.Cleanup(func() { conn.Close() })
	return conn, conn
}

// A plain request goes up as it is, so it is no way around the check.
func TestPlainRequestWhereTLSIs(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	for name, tc := range map[string]tlsCase{
		"a name":             {nil, 443, nil, nil, egress.CodeNotTLS},
		"every port":         {nil, 443, &yes, nil, egress.CodeNotTLS},
		"said to be":         {nil, 443, nil, &yes, egress.CodeNotTLS},
		"said not to be":     {nil, 443, nil, &no, egress.CodeAllowed},
		"switched off":       {nil, 443, &no, nil, egress.CodeAllowed},
		"another port":       {nil, 80, nil, nil, egress.CodeAllowed},
		"another, all ports": {nil, 8080, &yes, nil, egress.CodeAllowed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, labConfig{})
			list := patterns(t, []string{"front.example"})
			list[0].TLS = tc.tls
			d := egress.NewDecider(policy.Network{Allow: list, VerifyTLSName: tc.verify})
			l.server.Decider, l.server.Dialer.Decider = d, d
			l.raw("front.example", int(tc.port), func(c net.Conn) {
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
				c.(*net.TCPConn).CloseWrite()
				io.Copy(io.Discard, c)
			})
			got := fronts["http"](l, testCase{host: "front.example", port: tc.port})
			if dialed := len(l.net.dials()); got != tc.want || (dialed > 0) != (tc.want == egress.CodeAllowed) {
				t.Errorf("answered %s after %d dials, wanted %s", got, dialed, tc.want)
			}
			ev := l.events.wait(t, func(e event.Event) bool { return e.Via == "http" })
			if ev.Reason != tc.want || ev.Target != l.target(tc.port) {
				t.Errorf("event %+v, wanted reason %s", ev, tc.want)
			}
		})
	}
}

// What a refusal says would allow a flow that isn't TLS does so, wherever it
// stands in the list, and whatever else matches.
func TestNotTLSHintIsTrue(t *testing.T) {
	t.Parallel()
	said := []byte("SSH-2.0-x\r\n")
	refused := tlsCase{say: said, port: 443, want: egress.CodeNotTLS}
	hint := refused.through(t, "connect", patterns(t, []string{"front.example"})).Hint
	for name, tc := range map[string]struct {
		allow string
		want  string
	}{
		"after the name":           {`"front.example", ` + hint, egress.CodeAllowed},
		"before it":                {hint + `, "front.example"`, egress.CodeAllowed},
		"after the same":           {`"front.example:443", ` + hint, egress.CodeAllowed},
		"after a wildcard":         {`"*.example", ` + hint, egress.CodeAllowed},
		"a wildcard alone":         {`{"host": "*.example", "tls": false}`, egress.CodeAllowed},
		"a wildcard, and the name": {`{"host": "*.example", "tls": false}, "front.example"`, egress.CodeNotTLS},
		"any port, and this one":   {`{"host": "front.example", "tls": false}, "front.example:443"`, egress.CodeNotTLS},
		"another port":             {`{"host": "front.example:22", "tls": false}, "front.example"`, egress.CodeNotTLS},
		"said both ways":           {hint + `, {"host": "front.example:443", "tls": true}`, egress.CodeNotTLS},
		"another name":             {`{"host": "back.example", "tls": false}, "front.example"`, egress.CodeNotTLS},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, err := policy.Parse([]byte(`{"network": {"allow": [`+tc.allow+`]}}`), "p.json")
			if err != nil {
				t.Fatal(err)
			}
			tlsCase{say: said, port: 443, want: tc.want}.through(t, "connect", p.Network.Allow)
		})
	}
}
