// Package egress decides and carries what may leave: the host matcher, the
// dialer that checks resolved addresses, and the front ends that speak to
// programs inside (HTTP proxy with CONNECT, SOCKS5; later DNS and transparent
// flows). All front ends share one [Decider] and one [Dialer].
package egress
