package bwrap

import (
	"fmt"

	"pinfold/notify"
	"pinfold/policy"
	"pinfold/stub/seccomp"
	"pinfold/stub/wire"
)

// mediation says which filters a launch loads, and so what the supervisor
// does for it.
type mediation struct {
	mode seccomp.Mode // of the first program
	// notify: connect(2) is handed over by the second program.
	notify bool
	// proxy: there is a proxy inside, and the variables that name it.
	proxy bool
	// transparent: connections by name are carried with no proxy, too.
	transparent bool
}

// mediate chooses. Where the supervisor can look at each connection, unix
// sockets can be made inside: those among the command's own processes work,
// and of the host's exactly the listed ones. Elsewhere none can be made at
// all. With network.mode auto there are both ways out where the machine has
// both: programs that know of proxies are told in words why they are refused.
func mediate(in input, m Machine) mediation {
	md := mediation{mode: seccomp.Base}
	switch {
	case in.UnixSockets == policy.SocketsAll:
		md.mode = seccomp.Unix
	case whyNoSockets(m) == "":
		md.mode, md.notify = seccomp.Listed, true
	}
	if len(in.Network.Allow) > 0 {
		md.proxy = in.Network.Mode != policy.ModeTransparent
		md.transparent = in.Network.Mode != policy.ModeProxy && m.Notify
		md.notify = md.notify || md.transparent
	}
	return md
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

// checkMode refuses network.mode transparent where it can't be.
func checkMode(in input, m Machine) error {
	if in.Network.Mode != policy.ModeTransparent || m.Notify {
		return nil
	}
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "field_unavailable", Subject: "network.mode", Rule: in.position("network.mode"),
		Why: "cannot enforce network.mode: " + whyNot(m.NotifyWhy),
		Fix: `use "auto", which goes by the proxy where there is no other way`,
	}
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
