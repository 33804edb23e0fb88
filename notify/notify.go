package notify

import (
	"context"
	"net/netip"
	"syscall"

	"pinfold/event"
)

// A Socket is one unix socket that may be connected to.
type Socket struct {
	Path     string
	Dev, Ino uint64
	// Rule is the policy entry, for events.
	Rule string
	// Fixed: the command can't change what stands at Path, so a service that
	// made its socket anew while the command ran is still the one listed.
	Fixed bool
}

// Options say what an [Engine] works with. It owns the descriptors from New
// on, whether or not that fails.
type Options struct {
	// Listener is the seccomp notification descriptor.
	Listener int
	// Diag is a NETLINK_SOCK_DIAG socket of the sandbox's network namespace;
	// -1 where no unix socket can be made inside.
	Diag int
	// Witness is any socket of the sandbox's network namespace; -1 for Diag.
	Witness int
	// Sockets are the unix sockets that may be connected to, beside the
	// sandbox's own. AllSockets lifts the restriction.
	Sockets    []Socket
	AllSockets bool
	// Inet judges connections of the INET families; nil has them made as they
	// were asked for, which reaches the sandbox's own loopback.
	Inet   func(context.Context, Flow) Verdict
	Events event.Sink
	// AllFlows reports allowed connections to listed sockets too.
	AllFlows bool
	Run      string
}

// A Flow is one connection that a process inside asks for.
type Flow struct {
	To     netip.AddrPort // an IPv4 address is never in its IPv6 form
	Stream bool           // TCP, not UDP
	// Who tells the process and its program; 0 and "" where it is gone.
	Who func() (pid int, program string)
}

// A Verdict is what becomes of a Flow.
type Verdict struct {
	// Refused is the call's errno, if it is refused.
	Refused syscall.Errno
	// To is where to connect instead; the zero value means as asked.
	To netip.AddrPort
	// Started is told the socket's own address once it is connecting; nil
	// for nobody.
	Started func(from netip.AddrPort)
}
