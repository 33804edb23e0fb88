package egress

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"pinfold/policy"
)

// Decider answers from the policy's network lists alone. It is immutable and
// safe for concurrent use.
type Decider struct {
	allow []policy.HostPattern
	deny  []policy.HostPattern
	// verify is network.verify_tls_name.
	verify    *bool
	hostPorts []uint16
}

// NewDecider takes the lists of a policy.
func NewDecider(n policy.Network) *Decider {
	return &Decider{
		allow: slices.Clone(n.Allow), deny: slices.Clone(n.Deny), verify: n.VerifyTLSName, hostPorts: slices.Clone(n.HostPorts),
	}
}

// Empty reports whether nothing is allowed: such a launch has no listener.
func (d *Decider) Empty() bool { return len(d.allow) == 0 }

// Verdict is what the policy says about a target before anything is resolved.
type Verdict struct {
	Allowed bool
	Code    string
	// Rule is the entry that decided; nil where none matched.
	Rule *policy.HostPattern
	// Hint is the entry of network.allow that would allow it.
	Hint string
	Why  string
	// Name is the normalised host. Addr is set where it is an address.
	Name string
	Addr netip.Addr
}

// Decide gives the verdict on a target: deny beats allow, and what neither
// list names is refused.
func (d *Decider) Decide(t Target) Verdict {
	name, addr, isAddr, err := policy.NormalizeHost(t.Host)
	if err != nil {
		return Verdict{Code: CodeBadHost, Why: hostWhy(err)}
	}
	if t.Port == 0 {
		return Verdict{Code: CodeBadPort, Name: name, Why: "port 0 is no port"}
	}
	v := Verdict{Name: name}
	matches := func(p policy.HostPattern) bool {
		return (p.Port == 0 || p.Port == t.Port) && p.MatchesName(name)
	}
	if isAddr {
		v.Addr = addr
		matches = func(p policy.HostPattern) bool { return p.MatchesAddr(addr, t.Port) }
	}
	return d.judge(v, t.Port, matches)
}

// decideName says whether a normalised name is allowed at any port at all:
// what may be looked up.
func (d *Decider) decideName(name string) Verdict {
	v := Verdict{Name: name, Code: CodeNotListed, Why: "no entry of network.allow matches it", Hint: name}
	matches := func(p policy.HostPattern) bool { return p.MatchesName(name) }
	denies := func(p policy.HostPattern) bool { return p.Port == 0 && matches(p) }
	if i := slices.IndexFunc(d.deny, denies); i >= 0 {
		return Verdict{Name: name, Code: CodeDenied, Rule: &d.deny[i], Why: "network.deny denies it"}
	}
	if i := slices.IndexFunc(d.allow, matches); i >= 0 {
		return Verdict{Name: name, Code: CodeAllowed, Rule: &d.allow[i], Allowed: true}
	}
	return v
}

func (d *Decider) judge(v Verdict, port uint16, matches func(policy.HostPattern) bool) Verdict {
	if i := d.denies(v.Addr, port, matches); i >= 0 {
		v.Rule, v.Code = &d.deny[i], CodeDenied
		v.Why = fmt.Sprintf("%s denies it (%q)", source(v.Rule, "network.deny"), v.Rule.Text)
		return v
	}
	if i := slices.IndexFunc(d.allow, matches); i >= 0 {
		v.Rule, v.Code, v.Allowed = &d.allow[i], CodeAllowed, true
		v.Why = fmt.Sprintf("%s allows it (%q)", source(v.Rule, "network.allow"), v.Rule.Text)
		return v
	}
	v.Code, v.Why = CodeNotListed, "no entry of network.allow matches it"
	v.Hint = net.JoinHostPort(v.Name, strconv.Itoa(int(port)))
	return v
}

// denies is the index of the deny entry that matches the target or, for an
// address, one that it embeds; -1 for none.
func (d *Decider) denies(addr netip.Addr, port uint16, matches func(policy.HostPattern) bool) int {
	inner := embedded(addr)
	return slices.IndexFunc(d.deny, func(p policy.HostPattern) bool {
		return matches(p) || slices.ContainsFunc(inner, func(a netip.Addr) bool { return p.MatchesAddr(a, port) })
	})
}

func source(p *policy.HostPattern, list string) string {
	if p.Source != "" {
		return p.Source
	}
	return list
}

// DecideAddr judges an address that an allowed name resolved to: it must be
// ordinary, or listed itself, and in no deny list.
func (d *Decider) DecideAddr(addr netip.Addr, port uint16, self HostAddrs) Verdict {
	addr = addr.WithZone("").Unmap()
	v := Verdict{Name: addr.String(), Addr: addr}
	matches := func(p policy.HostPattern) bool { return p.MatchesAddr(addr, port) }
	// A bare "*" has already been asked about the name; asked again it would
	// say the same.
	if i := d.denies(addr, port, matches); i >= 0 {
		v.Rule, v.Code = &d.deny[i], CodeDeniedAddr
		v.Why = fmt.Sprintf("it resolves to %s, which %s denies (%q)", addr, source(v.Rule, "network.deny"), v.Rule.Text)
		return v
	}
	if i := slices.IndexFunc(d.allow, matches); i >= 0 {
		v.Rule, v.Code, v.Allowed = &d.allow[i], CodeAllowed, true
		return v
	}
	v.Code = Class(addr, self)
	if v.Allowed = v.Code == CodeAllowed; v.Allowed {
		return v
	}
	v.Why = fmt.Sprintf("it resolves to %s, %s, and that address isn't listed", addr, classText[v.Code])
	if v.Code != CodeMetadata { // nobody should be talked into that one
		v.Hint = entry(addr, port)
	}
	return v
}

var classText = map[string]string{
	CodeLoopback:    "this machine's loopback",
	CodeUnspecified: "which means this machine itself",
	CodeLinkLocal:   "a link-local address",
	CodePrivate:     "a private address",
	CodeShared:      "a shared (carrier) address",
	CodeMulticast:   "a multicast address",
	CodeReserved:    "a reserved address",
	CodeMetadata:    "a cloud's metadata service",
	CodeOwn:         "one of this machine's own addresses",
	CodeGateway:     "the gateway of this machine's default route",
}

// err is the verdict as an error; nil where it allows.
func (v Verdict) err(t Target) *Error {
	if v.Allowed {
		return nil
	}
	e := &Error{Code: v.Code, Target: t.String(), Why: v.Why, Hint: v.Hint, Addr: v.Addr}
	if v.Rule != nil {
		e.Rule = v.Rule.Text
	}
	return e
}
