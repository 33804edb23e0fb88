package egress

import (
	"net"
	"net/netip"
	"strconv"

	"pinfold/policy"
)

// Target is where a program wants to go, as it said so: Host is untrusted
// text in any spelling.
type Target struct {
	Host string
	Port uint16
}

// String is "host:port" in the normalised spelling where there is one, else
// as it was given.
func (t Target) String() string {
	host := t.Host
	if name, _, _, err := policy.NormalizeHost(t.Host); err == nil {
		host = name
	}
	return net.JoinHostPort(host, strconv.Itoa(int(t.Port)))
}

// ParseTarget splits "host:port" as CONNECT and the command line write it.
// The last colon starts the port, so the brackets of an IPv6 address may be
// missing. A port is one to five decimal digits, nothing else.
func ParseTarget(text string) (Target, *Error) {
	at := lastColon(text)
	if at < 0 {
		return Target{}, badTarget(text, "it has no port")
	}
	port, ok := parsePort(text[at+1:])
	if !ok {
		return Target{}, &Error{Code: CodeBadPort, Target: text, Why: "its port isn't a number from 1 to 65535"}
	}
	if _, _, _, err := policy.NormalizeHost(text[:at]); err != nil {
		return Target{}, badTarget(text, hostWhy(err))
	}
	return Target{Host: text[:at], Port: port}, nil
}

// lastColon finds the colon before the port: none where it lies within
// brackets.
func lastColon(text string) int {
	for i := len(text) - 1; i >= 0 && text[i] != ']'; i-- {
		if text[i] == ':' {
			return i
		}
	}
	return -1
}

func parsePort(text string) (uint16, bool) {
	n, err := strconv.ParseUint(text, 10, 16)
	// ParseUint takes no sign in base 10, but any number of zeros.
	if err != nil || n == 0 || text[0] == '0' {
		return 0, false
	}
	return uint16(n), true
}

func badTarget(text, why string) *Error {
	return &Error{Code: CodeBadHost, Target: text, Why: why}
}

func hostWhy(err error) string {
	if host, ok := err.(*policy.HostError); ok {
		return host.Why
	}
	return err.Error()
}

// entry is how a policy would list an address and a port.
func entry(addr netip.Addr, port uint16) string {
	return netip.AddrPortFrom(addr, port).String()
}
