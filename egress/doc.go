// Package egress decides and carries what may leave: the host matcher, the
// dialer that checks resolved addresses, and the front end that speaks HTTP
// proxy, CONNECT and SOCKS5 on one port.
//
//	d := egress.NewDecider(p.Network)
//	s := &egress.Server{Decider: d, Dialer: &egress.Dialer{Decider: d}, Events: sink}
//	err := s.Serve(ctx, listener) // a listener handed out of the sandbox
//
// What holds:
//   - A name that the policy doesn't list is refused before it is resolved.
//   - A listed name is resolved once; if any of its addresses is one that
//     [Class] calls anything but ordinary, and that address isn't listed
//     itself, the flow is refused. The address that was checked is dialled.
//   - Every front end asks the same [Decider] and the same [Dialer], so the
//     verdict doesn't depend on the protocol that a program happens to speak.
//   - Nothing is retried under a weaker rule. Where this machine's own
//     addresses can't be read, nothing is dialled.
//
// What doesn't: a listed host receives whatever it is sent, CONNECT and SOCKS
// carry bytes that nobody reads, and behind a parent proxy (network.upstream)
// it is the parent that resolves names, so resolved addresses go unchecked.
package egress
