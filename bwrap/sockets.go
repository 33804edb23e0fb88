package bwrap

import (
	"fmt"
	"slices"

	"pinfold/policy"
	"pinfold/stub/seccomp"
	"pinfold/stub/wire"
)

// useKind is what a socket that the stub makes is for.
type useKind string

const (
	useDiag     useKind = "diag"      // tells whose a unix socket is
	useNames    useKind = "names"     // DNS
	useNamesTCP useKind = "names-tcp" // DNS over TCP
	useFlows    useKind = "flows"     // takes captured connections
	useFlows6   useKind = "flows6"    // the same, of IPv6
	usePort     useKind = "port"      // listens on a port of network.host_ports
	usePort6    useKind = "port6"
	useSeed     useKind = "seed" // makes more sockets, for network.expose
	useSeed6    useKind = "seed6"
	useHatch    useKind = "hatch" // listens for the seed
	useHatch6   useKind = "hatch6"
)

// socketUse is one socket.
type socketUse struct {
	kind useKind
	port uint16
}

// Numbers of the Linux kernel, socket(2), which a translation on any platform
// needs.
const (
	afInet          = 2
	afInet6         = 10
	afNetlink       = 16
	sockStream      = 1
	sockDgram       = 2
	sockRaw         = 3
	protoTCP        = 6
	protoUDP        = 17
	netlinkSockDiag = 4
)

// socketOf is the socket of a use. The supervisor binds it: a port below 1024
// is the namespace's owner's to give, and an IPv6 address may be missing.
func socketOf(u socketUse) wire.Socket {
	switch u.kind {
	case useDiag:
		return wire.Socket{Domain: afNetlink, Type: sockRaw, Protocol: netlinkSockDiag}
	case useNames:
		return wire.Socket{Domain: afInet, Type: sockDgram, Protocol: protoUDP}
	case useFlows6, usePort6, useSeed6, useHatch6:
		return wire.Socket{Domain: afInet6, Type: sockStream, Protocol: protoTCP}
	}
	return wire.Socket{Domain: afInet, Type: sockStream, Protocol: protoTCP}
}

// socketUses are the sockets that a launch needs made inside.
func socketUses(in input, m Machine, md mediation) []socketUse {
	var uses []socketUse
	add := func(port uint16, kinds ...useKind) {
		for _, k := range kinds {
			if m.IPv6 || socketOf(socketUse{kind: k}).Domain != afInet6 {
				uses = append(uses, socketUse{k, port})
			}
		}
	}
	if md.mode == seccomp.Listed {
		add(0, useDiag)
	}
	if md.transparent {
		add(0, useNames, useNamesTCP, useFlows, useFlows6)
	}
	for _, port := range in.Network.HostPorts {
		add(port, usePort, usePort6)
	}
	if len(in.Network.Expose) > 0 {
		add(0, useSeed, useHatch, useSeed6, useHatch6)
	}
	return uses
}

// checkPorts refuses ports of the host's that the supervisor needs itself.
func checkPorts(in input, md mediation) error {
	own := map[uint16]string{}
	if md.transparent {
		own[namesPort] = "the name service"
	}
	if md.proxy {
		own[proxyPort] = "the proxy"
	}
	for _, port := range in.Network.HostPorts {
		if what := own[port]; what != "" {
			return &policy.Refusal{
				Reason: policy.Denied, Code: "port_taken", Subject: fmt.Sprint(port), Rule: in.position("network.host_ports"),
				Why: fmt.Sprintf("cannot give the sandbox port %d of the host: %s has that port inside", port, what),
				Fix: fmt.Sprintf("list \"127.0.0.1:%d\" in network.allow and go through the proxy, or have the service listen on another port", port),
			}
		}
	}
	if len(in.Network.HostPorts) != len(slices.Compact(slices.Sorted(slices.Values(in.Network.HostPorts)))) {
		return &policy.Refusal{
			Reason: policy.Denied, Code: "port_taken", Subject: "network.host_ports", Rule: in.position("network.host_ports"),
			Why: "cannot give the sandbox the host's ports: one is listed twice", Fix: "list each port once",
		}
	}
	return nil
}

const (
	namesPort = 53
	proxyPort = 3128
)
