package egress

import (
	"crypto/subtle"
	"encoding/base64"
	"io"
	"net/http"
	"slices"
	"strings"
)

// Password is what clients must say where whoever can connect isn't known to
// be inside: on systems without network namespaces the port is one of the
// whole machine's.
type Password struct {
	User, Secret string
}

// basic is the value of Proxy-Authorization (RFC 7617).
func (p *Password) basic() string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(p.User+":"+p.Secret))
}

// is compares without telling by its time how much of it was right.
func (p *Password) is(user, secret string) bool {
	u := subtle.ConstantTimeCompare([]byte(user), []byte(p.User))
	s := subtle.ConstantTimeCompare([]byte(secret), []byte(p.Secret))
	return u&s == 1
}

// proves reports whether a request's one Proxy-Authorization is right. The
// scheme's case doesn't count (RFC 9110 section 11.1).
func (p *Password) proves(fields []string) bool {
	if len(fields) != 1 {
		return false
	}
	scheme, text, _ := strings.Cut(fields[0], " ")
	raw, err := base64.StdEncoding.DecodeString(strings.TrimLeft(text, " "))
	if err != nil || !strings.EqualFold(scheme, "basic") {
		return false
	}
	user, secret, ok := strings.Cut(string(raw), ":")
	return ok && p.is(user, secret)
}

// admits asks an HTTP client for the password. Clients such as git ask first
// without one, so a missing password is no event; the connection ends, as a
// body may follow that nobody reads.
func (c *client) admits(h *head) bool {
	if c.s.Password == nil || c.s.Password.proves(h.auth) {
		return true
	}
	text := "pinfold: this proxy serves one run alone, which has its password in HTTPS_PROXY\n"
	state := closeAfter
	if h.method == http.MethodHead {
		state = closeAfterHead
	}
	answer := rawAnswer(http.StatusProxyAuthRequired, CodePassword, text, state)
	answer = strings.Replace(answer, "\r\n", "\r\nProxy-Authenticate: Basic realm=\"pinfold\"\r\n", 1)
	if c.write([]byte(answer)) == nil {
		c.linger()
	}
	return false
}

// The numbers of RFC 1929.
const (
	socksPassword   = 0x02 // the method
	passwordVersion = 0x01
	passwordRight   = 0x00
	passwordWrong   = 0x01
)

// socksMethodOf picks the one method that this server takes from those that
// the client offers.
func (c *client) socksMethodOf(offered []byte) (method byte, ok bool) {
	method = socksNoAuth
	if c.s.Password != nil {
		method = socksPassword
	}
	return method, slices.Contains(offered, method)
}

// socksAdmits takes user name and password, where one is asked for.
func (c *client) socksAdmits() bool {
	if c.s.Password == nil {
		return true
	}
	user, secret, err := c.socksLogin()
	if err != nil {
		return false
	}
	if !c.s.Password.is(user, secret) {
		if c.write([]byte{passwordVersion, passwordWrong}) == nil {
			c.linger()
		}
		return false
	}
	return c.write([]byte{passwordVersion, passwordRight}) == nil
}

// socksLogin reads VER ULEN UNAME PLEN PASSWD. Another version reads as a
// password that is wrong.
func (c *client) socksLogin() (user, secret string, err error) {
	version, err := c.br.ReadByte()
	if err != nil {
		return "", "", err //nolint:wrapcheck // there is nobody to tell
	}
	var field [2]string
	for i := range field {
		n, err := c.br.ReadByte()
		if err != nil {
			return "", "", err //nolint:wrapcheck // there is nobody to tell
		}
		b := make([]byte, n)
		if _, err := io.ReadFull(c.br, b); err != nil {
			return "", "", err //nolint:wrapcheck // there is nobody to tell
		}
		field[i] = string(b)
	}
	if version != passwordVersion {
		return "", "", nil
	}
	return field[0], field[1], nil
}
