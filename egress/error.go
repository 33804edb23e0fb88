package egress

import (
	"net/netip"
	"strings"
	"unicode"

	"pinfold/event"
)

// The codes of a verdict, of an event's reason, of the X-Pinfold-Reason
// header. docs/egress.md explains each.
const (
	CodeAllowed = "allowed"

	// Refused by the policy, before anything is resolved.
	CodeNotListed = "not_listed" // no entry of network.allow matches
	CodeDenied    = "denied"     // an entry of network.deny matches
	CodeBadHost   = "bad_host"   // no host that could be looked up
	CodeBadPort   = "bad_port"

	// Refused by the address that a listed name has.
	CodeLoopback    = "loopback_address"
	CodeUnspecified = "unspecified_address"
	CodeLinkLocal   = "link_local_address"
	CodePrivate     = "private_address"
	CodeShared      = "shared_address"
	CodeMulticast   = "multicast_address"
	CodeReserved    = "reserved_address"
	CodeMetadata    = "metadata_address"
	CodeOwn         = "own_address"
	CodeGateway     = "gateway_address"
	CodeDeniedAddr  = "denied_address" // an address that network.deny lists

	// Refused by what the run has sent already.
	CodeBudgetBytes = "budget_bytes_up"
	CodeBudgetConns = "budget_connections"
	CodeBudgetHosts = "budget_hosts"

	// Refused by what the client says.
	CodeTLSName = "tls_name_mismatch" // a TLS server name that isn't the host
	CodeNotTLS  = "not_tls"           // on port 443, and not said to be otherwise

	// The request itself.
	CodeBadRequest  = "bad_request"
	CodePassword    = "proxy_password"      // missing or wrong
	CodeNotAProxy   = "not_a_proxy_request" // origin-form
	CodeTooLong     = "line_too_long"
	CodeTooLarge    = "headers_too_large"
	CodeUnsupported = "unsupported"
	CodeTooMany     = "too_many_connections"

	// The network, not the policy.
	CodeSelfUnknown   = "own_addresses_unknown"
	CodeNoSuchHost    = "no_such_host"
	CodeResolve       = "resolve_failed"
	CodeConnect       = "connect_failed"
	CodeConnRefused   = "connection_refused"
	CodeTimeout       = "timeout"
	CodeUpstream      = "upstream_failed"       // the parent proxy
	CodeBadUpstream   = "bad_upstream_response" // the server's answer is no HTTP
	CodeUpstreamReset = "upstream_closed"
)

// Error is why a flow was refused or failed. Its text is for people and for
// the body of a 403: it names the rule and the entry that would allow it.
type Error struct {
	Code   string
	Target string
	Addr   netip.Addr // the address that decided, where one did
	Rule   string     // the entry that decided, as the operator wrote it
	Why    string
	Hint   string // the entry of network.allow that would allow it
	Err    error
}

// Error says what can't be reached and why.
func (e *Error) Error() string {
	text := "cannot reach " + printable(e.Target) + ": " + e.Why
	if e.Target == "" {
		text = e.Why
	}
	return text + " (" + e.Code + ")"
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Advice is the line that says how to allow it; empty where nothing would.
func (e *Error) Advice() string {
	if e.Hint == "" {
		return ""
	}
	return "add " + event.Entry(e.Hint) + " to network.allow"
}

// Denied reports whether the policy said no, as against a network that
// failed or a request that was malformed.
func (e *Error) Denied() bool {
	switch e.Code {
	case CodeNotListed, CodeDenied, CodeBadHost, CodeBadPort, CodeLoopback, CodeUnspecified, CodeLinkLocal,
		CodePrivate, CodeShared, CodeMulticast, CodeReserved, CodeMetadata, CodeOwn, CodeGateway, CodeDeniedAddr,
		CodeSelfUnknown, CodeTLSName, CodeNotTLS, CodeBudgetBytes, CodeBudgetConns, CodeBudgetHosts:
		return true
	}
	return false
}

// printable makes hostile text fit for a line of a terminal.
func printable(text string) string {
	const most = 300
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}
