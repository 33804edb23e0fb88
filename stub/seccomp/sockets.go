package seccomp

// Socket families, types and protocols, socket(2), ip(7), netlink(7).
const (
	afUnix    = 1
	afInet    = 2
	afInet6   = 10
	afNetlink = 16

	sockStream    = 1
	sockDgram     = 2
	sockRaw       = 3
	sockSeqpacket = 5
	// sockTypeMask is SOCK_TYPE_MASK: above it are SOCK_CLOEXEC and
	// SOCK_NONBLOCK.
	sockTypeMask = 0xf

	ipprotoIP     = 0
	ipprotoICMP   = 1
	ipprotoTCP    = 6
	ipprotoUDP    = 17
	ipprotoICMPv6 = 58
	ipprotoMPTCP  = 262

	netlinkRoute    = 0
	netlinkSockDiag = 4

	// msgFastOpen is MSG_FASTOPEN, send(2).
	msgFastOpen = 0x20000000
)

// A family is what may be opened of one socket family.
type family struct {
	number    uint32
	types     []uint32
	protocols []uint32 // nil for any
	why       string
}

func inetFamilies() []family {
	types := []uint32{sockStream, sockDgram}
	protocols := []uint32{ipprotoIP, ipprotoICMP, ipprotoTCP, ipprotoUDP, ipprotoICMPv6, ipprotoMPTCP}
	const why = "TCP, UDP and ping serve programs on the sandbox's own loopback; other types forge packets, and other protocols (SCTP, DCCP, L2TP, SMC) load kernel modules"
	return []family{
		{number: afInet, types: types, protocols: protocols, why: why},
		{number: afInet6, types: types, protocols: protocols, why: why},
	}
}

func netlinkFamily() family {
	return family{
		number: afNetlink, types: []uint32{sockRaw, sockDgram}, protocols: []uint32{netlinkRoute},
		why: "getifaddrs(3) asks the route family; others reach netfilter, audit, crypto and every generic module",
	}
}

// unixFamily leaves datagrams out: their socket can be aimed anew with each
// message, at any socket on the host whose path can be seen. SOCK_RAW is the
// same (unix_create takes it for a datagram).
func unixFamily() family {
	return family{
		number: afUnix, types: []uint32{sockStream, sockSeqpacket},
		why: "a datagram or raw socket sends to any address at any time",
	}
}

func socketRules(mode Mode) []Rule {
	netlink := netlinkFamily()
	if mode == Listed {
		netlink.protocols = append(netlink.protocols, netlinkSockDiag)
		netlink.why += "; sock_diag(7) tells the supervisor which sockets are the sandbox's own, and the second program takes it from the command"
	}
	families := append(inetFamilies(), netlink)
	if mode == Unix || mode == Listed {
		families = append(families, unixFamily())
	}
	return familyRules("socket", families, "only the families a program needs: the rest is kernel surface (AF_PACKET, AF_ALG), a way out past the network namespace (AF_VSOCK), or a way to host services (AF_UNIX)")
}

// notifyRules are the second program. sendto and its like need no look at
// their address: unix stream sockets take none (unix_stream_sendmsg answers
// EISCONN or EOPNOTSUPP) and seqpacket ones ignore it, and those of the INET
// families reach no further than the sandbox's own network namespace.
func notifyRules() []Rule {
	list := []Rule{
		{Syscall: "connect", HandOver: true, Why: "the address lies in memory, where it can change after any look: the supervisor makes the connection itself"},
		{
			Syscall: "socket", Answer: EPERM, Why: "opened once for the supervisor, before this program is loaded",
			Args: []Arg{{Index: 0, In: []uint32{afNetlink}}, {Index: 2, In: []uint32{netlinkSockDiag}}},
		},
	}
	for _, c := range []struct {
		name  string
		flags int
	}{{"sendto", 3}, {"sendmsg", 2}, {"sendmmsg", 3}} {
		list = append(list, Rule{
			Syscall: c.name, Answer: EPERM, Why: "MSG_FASTOPEN connects without connect(2)",
			Args: []Arg{{Index: c.flags, Mask: msgFastOpen, In: []uint32{msgFastOpen}}},
		})
	}
	return list
}

// socketpairRules leave the INET families to the kernel, whose answer
// (EOPNOTSUPP) programs know, whatever the protocol.
func socketpairRules() []Rule {
	families := []family{unixFamily()}
	for _, f := range inetFamilies() {
		f.protocols, f.why = nil, "the kernel makes no pairs of them, and says so"
		families = append(families, f)
	}
	return familyRules("socketpair", families, "pairs exist of unix sockets; the rest is kernel surface")
}

// familyRules refuses every family but these, and of these every type and
// protocol but the ones listed.
func familyRules(syscall string, families []family, why string) []Rule {
	numbers := make([]uint32, 0, len(families))
	for _, f := range families {
		numbers = append(numbers, f.number)
	}
	list := []Rule{{Syscall: syscall, Args: []Arg{{Index: 0, NotIn: numbers}}, Answer: EPERM, Why: why}}
	for _, f := range families {
		is := Arg{Index: 0, In: []uint32{f.number}}
		list = append(list, Rule{
			Syscall: syscall, Answer: EPERM, Why: f.why,
			Args: []Arg{is, {Index: 1, Mask: sockTypeMask, NotIn: f.types}},
		})
		if f.protocols != nil {
			list = append(list, Rule{
				Syscall: syscall, Answer: EPERM, Why: f.why,
				Args: []Arg{is, {Index: 2, NotIn: f.protocols}},
			})
		}
	}
	return list
}
