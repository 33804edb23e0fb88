package policy

import (
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"
)

// ParseHostPattern reads one entry of network.allow (or of a needs file's
// hosts): "host", "host:port", "*.domain", "*.domain:port", an address,
// "v4:port", "[v6]:port", a prefix, "prefix:port". What would grant
// everything is refused: a bare "*", a prefix of length 0, a wildcard beneath
// a public suffix such as "*.co.uk". An address in any but its usual spelling
// is refused with the usual one as the hint, so that nobody has to guess what
// 010.0.0.1 means; "2001:db8::1:443" is an address, not one with a port.
func ParseHostPattern(text string) (HostPattern, error) {
	p, err := ParseDenyPattern(text)
	if err != nil {
		return HostPattern{}, err
	}
	if why := tooWide(p); why != "" {
		hint := "list the hosts that are meant"
		return HostPattern{}, &HostError{Text: text, Why: why, Hint: hint}
	}
	return p, nil
}

// ParseDenyPattern reads one entry of network.deny: like [ParseHostPattern],
// but a bare "*" (with or without a port), a prefix of length 0 and a
// wildcard beneath a public suffix are taken too.
func ParseDenyPattern(text string) (HostPattern, error) {
	if err := checkPatternText(text); err != nil {
		return HostPattern{}, err
	}
	host, port, err := splitPort(text)
	if err != nil {
		return HostPattern{}, err
	}
	p := HostPattern{Text: text, Port: port}
	switch {
	case strings.Contains(host, "/"):
		p.Prefix, err = parsePrefix(text, host)
	case host == "*":
		p.Wildcard = true
	case strings.HasPrefix(host, "*."):
		p.Wildcard = true
		p.Name, err = wildcardDomain(text, host[2:])
	default:
		err = p.setHost(text, host)
	}
	if err != nil {
		return HostPattern{}, err
	}
	return p, nil
}

func tooWide(p HostPattern) string {
	switch {
	case p.Any():
		return `"*" would allow everything and stands in deny lists only`
	case p.Prefix.IsValid() && p.Prefix.Bits() == 0:
		return "a prefix of length 0 would allow every address"
	case p.Wildcard && isPublicSuffix(p.Name):
		return "anybody can register a name beneath this public suffix"
	}
	return ""
}

// isPublicSuffix counts only suffixes that registries manage. Those that
// companies add for themselves (githubusercontent.com) and names the list
// doesn't know (corp, internal) are the operator's to judge.
func isPublicSuffix(domain string) bool {
	suffix, managed := publicsuffix.PublicSuffix(domain)
	return managed && suffix == domain
}

func checkPatternText(text string) error {
	if err := checkHostText(text); err != nil {
		return err
	}
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		return &HostError{Text: text, Why: "it is a URL", Hint: urlHint(scheme, rest)}
	}
	if strings.Contains(text, "@") {
		return &HostError{Text: text, Why: "a host holds no user name"}
	}
	return nil
}

func urlHint(scheme, rest string) string {
	host, _, _ := strings.Cut(rest, "/")
	if strings.Contains(host, ":") || host == "" {
		return "write the host alone, with or without its port"
	}
	ports := map[string]string{"http": "80", "https": "443", "ssh": "22", "git": "9418"}
	if port, ok := ports[strings.ToLower(scheme)]; ok {
		host += ":" + port
	}
	if _, err := ParseHostPattern(host); err != nil {
		return "write the host alone, with or without its port"
	}
	return "write " + strconv.Quote(host)
}

// splitPort takes the port off a pattern. A colon starts a port where it
// follows a bracket, follows the length of a prefix, or is the only one.
func splitPort(text string) (host string, port uint16, err error) {
	at := strings.LastIndexByte(text, ':')
	afterSlash := at > strings.LastIndexByte(text, '/') && strings.Contains(text, "/")
	bracket := strings.LastIndexByte(text, ']')
	switch {
	case at < 0, strings.Contains(text, "/") && !afterSlash:
		return text, 0, nil
	case bracket >= 0 && at < bracket:
		return text, 0, nil
	case bracket < 0 && !afterSlash && strings.Count(text, ":") > 1:
		return text, 0, nil
	}
	port, ok := parsePort(text[at+1:])
	if !ok {
		return "", 0, &HostError{Text: text, Why: "its port isn't a number from 1 to 65535"}
	}
	return text[:at], port, nil
}

// parsePort takes plain decimal only: no sign, no leading zero.
func parsePort(text string) (uint16, bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 || text[0] == '0' || text[0] == '+' {
		return 0, false
	}
	return uint16(n), true
}

// parsePrefix reads "addr/bits", "[v6]/bits" and "[v6/bits]".
func parsePrefix(text, host string) (netip.Prefix, error) {
	bare := host
	if strings.HasPrefix(host, "[") {
		bare = strings.Replace(host[1:], "]", "", 1)
	}
	if strings.ContainsAny(bare, "[]%") {
		return netip.Prefix{}, &HostError{Text: text, Why: "it is no prefix"}
	}
	prefix, err := netip.ParsePrefix(bare)
	if err != nil {
		why := "it is neither a prefix such as 10.0.0.0/8 nor a name, and a path can't be part of a host"
		return netip.Prefix{}, &HostError{Text: text, Why: why}
	}
	prefix, ok := unmapPrefix(prefix)
	if !ok {
		return netip.Prefix{}, &HostError{Text: text, Why: "it mixes IPv4-mapped and other IPv6 addresses"}
	}
	if masked := prefix.Masked(); masked != prefix {
		return netip.Prefix{}, &HostError{Text: text, Why: "it has bits set beyond the prefix", Hint: maskedHint(text, host, prefix)}
	}
	return prefix, nil
}

// maskedHint offers what may have been meant, in the entry's own form. A prefix
// of length 0 can't have been meant: an allow list refuses that one too.
func maskedHint(text, host string, p netip.Prefix) string {
	port := strings.TrimPrefix(text, host)
	addr := p.Addr().String()
	if p.Addr().Is6() && port != "" {
		addr = "[" + addr + "]"
	}
	alone := strconv.Quote(addr + port)
	if p.Bits() == 0 {
		return "write the length that is meant, or " + alone + " for the address alone"
	}
	return "write " + strconv.Quote(p.Masked().String()+port) + ", or " + alone + " for the address alone"
}

// unmapPrefix turns a prefix of IPv4-mapped addresses into the IPv4 one,
// since addresses are compared unmapped.
func unmapPrefix(p netip.Prefix) (netip.Prefix, bool) {
	if !p.Addr().Is4In6() {
		return p, true
	}
	if p.Bits() < 96 {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96), true
}

func wildcardDomain(text, domain string) (string, error) {
	name, _, isAddr, err := NormalizeHost(domain)
	if err != nil || isAddr || strings.Contains(domain, ":") {
		why := `"*." needs a domain after it`
		return "", &HostError{Text: text, Why: why, Hint: `write "*.example.com"`}
	}
	return name, nil
}

func (p *HostPattern) setHost(text, host string) error {
	if strings.Contains(host, "*") {
		why := `"*" stands for the whole first labels only`
		return &HostError{Text: text, Why: why, Hint: `write "*.example.com", or list the names`}
	}
	name, addr, isAddr, err := NormalizeHost(host)
	if err != nil {
		return rename(err, text)
	}
	if !isAddr {
		p.Name = name
		return nil
	}
	if usual, err := netip.ParseAddr(strings.Trim(host, "[]")); err != nil || usual.Unmap() != addr {
		hint := "write " + strconv.Quote(addr.String())
		return &HostError{Text: text, Why: "it is an unusual spelling of an address", Hint: hint}
	}
	p.Prefix = netip.PrefixFrom(addr, addr.BitLen())
	return nil
}

// rename makes a host's error speak of the whole entry.
func rename(err error, text string) error {
	host, ok := err.(*HostError) //nolint:errorlint // made a few lines up, never wrapped
	if !ok {
		return err
	}
	return &HostError{Text: text, Why: host.Why, Hint: host.Hint}
}
