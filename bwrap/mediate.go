package bwrap

import (
	"fmt"

	"pinfold/notify"
	"pinfold/policy"
	"pinfold/stub/seccomp"
	"pinfold/stub/wire"
)

// mediation says which filters a launch loads, and so whether the supervisor
// makes the command's connections for it.
type mediation struct {
	mode seccomp.Mode // of the first program
	// notify: connect(2) is handed over by the second program.
	notify bool
}

// mediate chooses the filters. Where the supervisor can look at each
// connection, unix sockets can be made inside: those among the command's own
// processes work, and of the host's exactly the listed ones. Elsewhere none
// can be made at all.
func mediate(in input, m Machine) mediation {
	switch {
	case in.UnixSockets == policy.SocketsAll:
		return mediation{mode: seccomp.Unix}
	case whyNoSockets(m) == "":
		return mediation{mode: seccomp.Listed, notify: true}
	}
	return mediation{mode: seccomp.Base}
}

// whyNoSockets says why unix sockets can't be told apart on this machine, or
// "". Landlock is part of it: bubblewrap's own pid 1 inside has the first
// program alone, and it is Landlock that keeps the command from taking that
// process over by ptrace(2) (landlock(7), "Ptrace restrictions").
func whyNoSockets(m Machine) string {
	switch {
	case !m.Notify:
		return whyNot(m.NotifyWhy)
	case m.SocketsWhy != "":
		return m.SocketsWhy
	case m.LandlockABI < wire.LandlockABI:
		return fmt.Sprintf("the kernel has Landlock ABI %d, wanted %d", m.LandlockABI, wire.LandlockABI)
	}
	return ""
}

func whyNot(why string) string {
	if why == "" {
		return "the kernel has no user notification"
	}
	return why
}

// checkSockets refuses listed sockets on a machine that can't tell them from
// others.
func checkSockets(in input, m Machine) error {
	why := whyNoSockets(m)
	if len(in.Sockets) == 0 || in.UnixSockets == policy.SocketsAll || why == "" {
		return nil
	}
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "field_unavailable", Subject: "sockets", Rule: in.position("sockets"),
		Why: "cannot enforce sockets: " + why,
		Fix: `use "unix_sockets": "all", which lets the command reach every socket that it sees`,
	}
}

// Numbers of the Linux kernel, socket(2), which a translation on any platform
// needs.
const (
	afNetlink       = 16
	sockRaw         = 3
	netlinkSockDiag = 4
)

// socketsForSupervisor are the sockets that the stub makes for the
// supervisor.
func socketsForSupervisor(md mediation) []wire.Socket {
	if md.mode != seccomp.Listed {
		return nil
	}
	return []wire.Socket{{Domain: afNetlink, Type: sockRaw, Protocol: netlinkSockDiag}}
}

// listedSockets are the sockets that the policy lists, as the supervisor
// compares them.
func listedSockets(in input) []notify.Socket {
	var list []notify.Socket
	for _, s := range in.Sockets {
		list = append(list, notify.Socket{
			Path: s.Path, Dev: s.ID.Dev, Ino: s.ID.Ino, Rule: s.Rule.Text,
			Fixed: in.Writable != nil && !in.Writable(s.Path),
		})
	}
	return list
}
