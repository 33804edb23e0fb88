package policy

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

// The bounds of RFC 1035 section 2.3.4: 63 octets in a label, 253 characters
// in a name written without its trailing dot. Text longer than
// maxHostText isn't even mapped: one non-ASCII character can become several
// ASCII ones, never fewer than a third as many bytes that a name may hold.
const (
	maxLabel    = 63
	maxName     = 253
	maxHostText = 1024
)

// HostError is why a text is no host or no host pattern.
type HostError struct {
	Text string
	Why  string
	Hint string // what to write instead; may be empty
}

// Error names the text and the reason.
func (e *HostError) Error() string {
	return fmt.Sprintf("cannot use %q as a host: %s", clip(e.Text), e.Why)
}

// clip bounds what an error repeats of a hostile text.
func clip(text string) string {
	const most = 80
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// NormalizeHost turns a host as a client or an operator writes it into the
// one form that patterns are compared with. A name comes back after IDNA
// mapping, in lower case, with one trailing dot dropped. An address comes
// back as addr, with isAddr set and name its canonical text: brackets are
// dropped, an IPv4-mapped IPv6 address is unmapped, and every spelling that
// inet_aton(3) reads as IPv4 (127.1, 0x7f.1, 2130706433, 0177.0.0.1) is the
// address it means, so that none can pass as a name. A text whose last label
// is a number but that isn't such an address is refused, as are zone ids,
// control characters, empty and overlong labels.
//
// A host that NormalizeHost refuses matches no pattern, in a deny list
// neither: whoever decides about one must refuse it.
func NormalizeHost(text string) (name string, addr netip.Addr, isAddr bool, err error) {
	if err := checkHostText(text); err != nil {
		return "", netip.Addr{}, false, err
	}
	if strings.ContainsAny(text, ":[]%") {
		addr, err = parseIPv6(text)
		if err != nil {
			return "", netip.Addr{}, false, err
		}
		return addr.String(), addr, true, nil
	}
	name, err = asciiName(text)
	if err != nil {
		return "", netip.Addr{}, false, err
	}
	if !endsInNumber(name) {
		return name, netip.Addr{}, false, nil
	}
	addr, ok := parseIPv4(name)
	if !ok {
		why := "its last label is a number, so it can only be an IPv4 address, and it is none"
		return "", netip.Addr{}, false, &HostError{Text: text, Why: why}
	}
	return addr.String(), addr, true, nil
}

func checkHostText(text string) error {
	switch {
	case text == "":
		return &HostError{Text: text, Why: "it is empty"}
	case len(text) > maxHostText:
		return &HostError{Text: text, Why: "it is longer than a host name may be"}
	case !utf8.ValidString(text):
		return &HostError{Text: text, Why: "it isn't UTF-8"}
	}
	for _, r := range text {
		if r <= ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return &HostError{Text: text, Why: fmt.Sprintf("it holds the character %U", r)}
		}
	}
	return nil
}

// parseIPv6 reads an address with or without brackets.
func parseIPv6(text string) (netip.Addr, error) {
	inner := text
	if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		inner = text[1 : len(text)-1]
	}
	addr, err := netip.ParseAddr(inner)
	switch {
	case strings.Contains(text, "%"):
		return netip.Addr{}, &HostError{Text: text, Why: "an address with a zone id means a different host on each machine"}
	case err != nil, !addr.Is6():
		return netip.Addr{}, &HostError{Text: text, Why: "it is no IPv6 address and a name holds no colon or bracket"}
	}
	return addr.Unmap(), nil
}

// asciiName maps a name to the form that the DNS knows it by.
func asciiName(text string) (string, error) {
	name := strings.ToLower(text)
	if !isASCII(name) {
		mapped, err := idna.Lookup.ToASCII(text)
		if err != nil {
			return "", &HostError{Text: text, Why: "it is no valid international name"}
		}
		name = mapped
	}
	name = strings.TrimSuffix(name, ".")
	if name == "" || len(name) > maxName {
		return "", &HostError{Text: text, Why: fmt.Sprintf("a name has 1 to %d characters", maxName)}
	}
	for label := range strings.SplitSeq(name, ".") {
		if why := badLabel(label); why != "" {
			return "", &HostError{Text: text, Why: why}
		}
	}
	return name, nil
}

// badLabel says what is wrong with one label, "" for nothing. Underscores and
// hyphens in any inner place exist in the wild (r3---sn-x.googlevideo.com),
// so they pass; idna's own rule would refuse both.
func badLabel(label string) string {
	switch {
	case label == "":
		return "it has an empty label"
	case len(label) > maxLabel:
		return fmt.Sprintf("a label is longer than %d characters", maxLabel)
	case label[0] == '-' || label[len(label)-1] == '-':
		return "a label starts or ends with a hyphen"
	}
	for i := range len(label) {
		if c := label[i]; !isLabelByte(c) {
			return fmt.Sprintf("a name holds no %q", rune(c))
		}
	}
	if strings.HasPrefix(label, "xn--") {
		if back, err := idna.Lookup.ToASCII(label); err != nil || back != label {
			return "its xn-- label encodes no valid international name"
		}
	}
	return ""
}

func isLabelByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '_'
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// endsInNumber reports whether a resolver could read the name as an IPv4
// address: its last label is decimal digits, or 0x and hexadecimal digits
// (the rule that browsers share, https://url.spec.whatwg.org/#ends-in-a-number-checker).
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

// parseIPv4 reads the spellings of inet_aton(3): one to four numbers, each
// decimal, octal after 0 or hexadecimal after 0x; all but the last are one
// byte, the last fills the rest.
func parseIPv4(name string) (netip.Addr, bool) {
	parts := strings.Split(name, ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var value uint64
	for i, part := range parts {
		// Base 0 would take 0b, 0o and underscores too.
		n, err := strconv.ParseUint(digits(part))
		if err != nil {
			return netip.Addr{}, false
		}
		width := 8
		if i == len(parts)-1 {
			width = 8 * (5 - len(parts))
		}
		if n >= 1<<width {
			return netip.Addr{}, false
		}
		value = value<<width | n
	}
	return netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)}), true
}

// digits splits a number into what strconv.ParseUint wants of it.
func digits(part string) (text string, base, bits int) {
	if hex, ok := strings.CutPrefix(part, "0x"); ok {
		return hex, 16, 64
	}
	if len(part) > 1 && part[0] == '0' {
		return part[1:], 8, 64
	}
	return part, 10, 64
}
