package policy

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Any reports whether p is the bare "*" of a deny list.
func (p HostPattern) Any() bool {
	return p.Wildcard && p.Name == ""
}

// Matches reports whether p matches a host, in any spelling that
// [NormalizeHost] takes, at a port. A host that NormalizeHost refuses matches
// nothing, so refuse such a host before asking a deny list.
func (p HostPattern) Matches(host string, port uint16) bool {
	name, addr, isAddr, err := NormalizeHost(host)
	if err != nil {
		return false
	}
	if isAddr {
		return p.MatchesAddr(addr, port)
	}
	return p.matchesPort(port) && p.MatchesName(name)
}

// MatchesName reports whether p matches a normalised name at any port.
func (p HostPattern) MatchesName(name string) bool {
	switch {
	case p.Any():
		return true
	case p.Wildcard:
		return isBeneath(name, p.Name)
	}
	return p.Name != "" && p.Name == name
}

// MatchesAddr reports whether p matches an address at a port. Addresses that
// embed another one are not taken apart, IPv4-mapped ones aside.
func (p HostPattern) MatchesAddr(addr netip.Addr, port uint16) bool {
	if !addr.IsValid() || !p.matchesPort(port) {
		return false
	}
	return p.Any() || p.Prefix.IsValid() && p.Prefix.Contains(addr.WithZone("").Unmap())
}

func (p HostPattern) matchesPort(port uint16) bool {
	return p.Port == 0 || p.Port == port
}

// Covers reports whether p matches everything that other matches.
func (p HostPattern) Covers(other HostPattern) bool {
	switch {
	case p.Port != 0 && p.Port != other.Port, !other.isSet():
		return false
	case p.Any():
		return true
	case other.Any():
		return false
	case p.Prefix.IsValid():
		return other.Prefix.IsValid() && p.Prefix.Bits() <= other.Prefix.Bits() &&
			p.Prefix.Contains(other.Prefix.Addr())
	case other.Prefix.IsValid():
		return false
	case p.Wildcard:
		return isBeneath(other.Name, p.Name) || other.Wildcard && other.Name == p.Name
	}
	return !other.Wildcard && p.Name != "" && p.Name == other.Name
}

// Overlaps reports whether some host at some port matches both.
func (p HostPattern) Overlaps(other HostPattern) bool {
	if !p.isSet() || !other.isSet() {
		return false
	}
	if p.Port != 0 && other.Port != 0 && p.Port != other.Port {
		return false
	}
	p.Port, other.Port = 0, 0
	return p.Covers(other) || other.Covers(p)
}

func (p HostPattern) isSet() bool {
	return p.Wildcard || p.Name != "" || p.Prefix.IsValid()
}

// isBeneath reports whether name is a subdomain of domain, never domain
// itself.
func isBeneath(name, domain string) bool {
	rest, ok := strings.CutSuffix(name, domain)
	return ok && len(rest) > 1 && rest[len(rest)-1] == '.'
}

// String is the canonical spelling, which ParseDenyPattern reads back.
func (p HostPattern) String() string {
	host := p.Name
	switch {
	case p.Any():
		host = "*"
	case p.Wildcard:
		host = "*." + p.Name
	case p.Prefix.IsValid() && !p.Prefix.IsSingleIP():
		host = p.Prefix.String()
	case p.Prefix.IsValid():
		return addrPort(p.Prefix.Addr(), p.Port)
	}
	if p.Port == 0 {
		return host
	}
	return host + ":" + strconv.Itoa(int(p.Port))
}

func addrPort(addr netip.Addr, port uint16) string {
	if port == 0 {
		return addr.String()
	}
	return net.JoinHostPort(addr.String(), strconv.Itoa(int(port)))
}

// Grants reports whether the network lists let everything through that need
// asks for: one allow entry covers it and no deny entry touches it. rule is
// the entry that decided; nil where nothing allows it.
func (n Network) Grants(need HostPattern) (rule *HostPattern, ok bool) {
	for i := range n.Deny {
		if n.Deny[i].Overlaps(need) {
			return &n.Deny[i], false
		}
	}
	for i := range n.Allow {
		if n.Allow[i].Covers(need) {
			return &n.Allow[i], true
		}
	}
	return nil, false
}
