package policy

import (
	"fmt"
	"net/url"
	"strings"
)

// Terms are what a network grant says beyond its hosts, one line each and in
// the order of the document; none where all is as usual. They are what a plan
// holds of it, so a password in a URL isn't in them.
func (n Network) Terms() []string {
	var out []string
	for _, h := range n.Allow {
		if h.TLS != nil {
			out = append(out, fmt.Sprintf("allow %s tls %v", h.Text, *h.TLS))
		}
		out = append(out, h.Budget.terms("allow "+h.Text+" budget")...)
	}
	if n.VerifyTLSName != nil { // none is neither: by the port
		out = append(out, fmt.Sprintf("verify_tls_name %v", *n.VerifyTLSName))
	}
	for _, port := range n.HostPorts {
		out = append(out, fmt.Sprintf("host_ports %d", port))
	}
	for _, e := range n.Expose {
		out = append(out, "expose "+e.Text)
	}
	out = append(out, n.Budget.terms("budget")...)
	if n.Upstream != "" {
		out = append(out, "upstream "+withoutPassword(n.Upstream))
	}
	return out
}

// terms leaves out what isn't bounded.
func (b Budget) terms(of string) []string {
	var out []string
	for _, t := range []struct {
		name  string
		bound int64
	}{{"bytes_up", b.BytesUp}, {"connections", b.Connections}, {"hosts", b.Hosts}} {
		if t.bound != 0 {
			out = append(out, fmt.Sprintf("%s %s %d", of, t.name, t.bound))
		}
	}
	return out
}

// withoutPassword is where a parent proxy's URL comes from, or its scheme and
// host, and what goes past it. What isn't a URL is refused elsewhere.
func withoutPassword(upstream string) string {
	if upstream == "env" || strings.HasPrefix(upstream, "env:") || strings.HasPrefix(upstream, "file:") {
		return upstream
	}
	u, err := url.Parse(upstream)
	if err != nil {
		return "by a URL"
	}
	out := u.Scheme + "://" + u.Host
	if list := u.Query().Get("no_proxy"); list != "" {
		out += " no_proxy " + list
	}
	return out
}
