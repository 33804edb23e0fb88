package policy

import "net/netip"

// HostPattern is one entry of network.allow or network.deny: a name, a
// wildcard beneath a domain, an address or a prefix, each with an optional
// port. Values come from [ParseHostPattern] only.
type HostPattern struct {
	// Text is the entry as written.
	Text string
	// Name is the normalised name (IDNA, lower case, no trailing dot); for a
	// wildcard the domain beneath which it matches, "" for the bare "*".
	Name string
	// Wildcard: matches anything beneath Name, not Name itself.
	Wildcard bool
	// Prefix is set for addresses and CIDRs.
	Prefix netip.Prefix
	// Port is zero for any.
	Port uint16
	// TLS is false where the operator said that a flow isn't TLS.
	TLS *bool
	// Budget bounds what the entry lets out; zero means no bound. Only entries
	// of network.allow have one.
	Budget Budget
	// Source names the entry for people: "network.allow[2]".
	Source string
	At     Position
}
