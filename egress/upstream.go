package egress

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpproxy"
)

// Upstream is a parent proxy that flows are chained through. The parent
// resolves the names, so only what the policy says about names (and about
// addresses that a program gives itself) is checked here. What its no-proxy
// rules except is dialled directly, with every check.
type Upstream struct {
	pick func(*url.URL) (*url.URL, error)
	// text is for people: no credentials.
	text string
	// TLS is for parents that are spoken to over TLS; nil means the system's
	// roots.
	TLS *tls.Config
}

// maxUpstreamFile bounds a file that holds a proxy URL.
const maxUpstreamFile = 64 << 10

// ParseUpstream reads network.upstream; nil for "", and for "env" where the
// environment names no proxy. The value is one of
//
//	env                   HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY in either case
//	env:NAME              the URL is in that variable
//	file:PATH             the URL is the first line of that file
//	scheme://[user:password@]host:port[?no_proxy=LIST]
//
// with the schemes http, https, socks5 and socks5h. No error repeats the URL,
// which may hold a password.
func ParseUpstream(value string, getenv func(string) string) (*Upstream, error) {
	switch {
	case value == "":
		return nil, nil
	case value == "env":
		return upstreamFromEnv(getenv)
	case strings.HasPrefix(value, "env:"):
		name := value[len("env:"):]
		if getenv(name) == "" {
			return nil, fmt.Errorf("cannot use network.upstream: the variable %q is not set", name)
		}
		return upstreamFromURL(getenv(name))
	case strings.HasPrefix(value, "file:"):
		path, _ := UpstreamFile(value)
		text, err := readUpstreamFile(path)
		if err != nil {
			return nil, err
		}
		return upstreamFromURL(text)
	}
	return upstreamFromURL(value)
}

// UpstreamFile is the file that network.upstream names, if it names one.
func UpstreamFile(value string) (path string, ok bool) {
	path, ok = strings.CutPrefix(value, "file:")
	return strings.TrimPrefix(path, "//"), ok
}

func readUpstreamFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("cannot read network.upstream: %w", err)
	}
	defer f.Close()
	data := make([]byte, maxUpstreamFile)
	n, err := f.Read(data)
	if err != nil {
		return "", fmt.Errorf("cannot read network.upstream from %q: %w", path, err)
	}
	line, _, _ := strings.Cut(string(data[:n]), "\n")
	return strings.TrimSpace(line), nil
}

func upstreamFromURL(text string) (*Upstream, error) {
	u, err := parseProxyURL(text)
	if err != nil {
		return nil, err
	}
	noProxy := u.Query().Get("no_proxy")
	u.RawQuery = ""
	return newUpstream(u.String(), u.String(), noProxy)
}

func upstreamFromEnv(getenv func(string) string) (*Upstream, error) {
	get := func(name string) string {
		if v := getenv(strings.ToLower(name)); v != "" {
			return v
		}
		return getenv(name)
	}
	all := get("ALL_PROXY")
	plain, secure := first(get("HTTP_PROXY"), all), first(get("HTTPS_PROXY"), all)
	if plain == "" && secure == "" {
		return nil, nil
	}
	return newUpstream(plain, secure, get("NO_PROXY"))
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func newUpstream(plain, secure, noProxy string) (*Upstream, error) {
	cfg := httpproxy.Config{NoProxy: noProxy}
	var names []string
	for _, p := range []struct {
		text string
		into *string
	}{{plain, &cfg.HTTPProxy}, {secure, &cfg.HTTPSProxy}} {
		if p.text == "" {
			continue
		}
		u, err := parseProxyURL(p.text)
		if err != nil {
			return nil, err
		}
		*p.into = u.String()
		if name := u.Scheme + "://" + u.Host; len(names) == 0 || names[0] != name {
			names = append(names, name)
		}
	}
	return &Upstream{pick: cfg.ProxyFunc(), text: strings.Join(names, ", ")}, nil
}

var errUpstreamURL = errors.New("cannot use network.upstream: it isn't a URL like http://proxy.example:3128")

func parseProxyURL(text string) (*url.URL, error) {
	if !strings.Contains(text, "://") {
		text = "http://" + text // as the variables allow
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return nil, errUpstreamURL // the cause repeats the URL
	}
	defaults := map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}
	port, ok := defaults[u.Scheme]
	if !ok {
		return nil, fmt.Errorf("cannot use network.upstream: the scheme %q is none of http, https, socks5, socks5h", u.Scheme)
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), port)
	}
	if u.Scheme == "socks5h" { // to us the same: the parent resolves
		u.Scheme = "socks5"
	}
	u.Path, u.Fragment = "", ""
	return u, nil
}

// String names the parents for people, without credentials.
func (u *Upstream) String() string {
	if u == nil {
		return ""
	}
	return u.text
}

// The schemes that a parent is chosen by: httpproxy knows HTTP_PROXY for one
// and HTTPS_PROXY for the other.
const (
	plainHTTP = "http"
	tunnelled = "https"
)

// choose is the parent for an allowed target; nil means to dial directly.
func (u *Upstream) choose(scheme string, v Verdict, port uint16) *url.URL {
	if u == nil {
		return nil
	}
	host := net.JoinHostPort(v.Name, strconv.Itoa(int(port)))
	parent, err := u.pick(&url.URL{Scheme: scheme, Host: host})
	if err != nil { // only for CGI programs, which the configuration says this isn't
		return nil
	}
	return parent
}
