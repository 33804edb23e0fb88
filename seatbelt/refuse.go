package seatbelt

import (
	"fmt"
	"net/netip"

	"pinfold/policy"
)

// inexpressible is what a profile, or macOS, has no means for. It refuses the
// launch; it is never ignored.
type inexpressible struct {
	field string
	set   func(input) bool
	code  string
	why   string
	fix   string
}

var inexpressibles = []inexpressible{
	{
		"tier", func(in input) bool { return in.tier == policy.TierContainer }, "tier_not_expressible",
		"a sandbox profile holds processes of this machine, not a container", `use "tier": "process"`,
	},
	{
		"container", func(in input) bool { _, ok := in.given["container"]; return ok }, "field_unavailable",
		"the process tier has no container", "leave the field out",
	},
	{
		"unix_sockets", func(in input) bool { return in.unix == policy.SocketsAll }, "field_unavailable",
		"escape sockets can't be told apart", `list the sockets in "sockets"`,
	},
	{
		"network.mode", func(in input) bool { return in.network.Mode == policy.ModeTransparent }, "field_unavailable",
		"macOS has no network namespace to answer names in", `use "auto" or "proxy"`,
	},
	{
		"network.expose", func(in input) bool { return !exposable(in.network.Expose) }, "field_unavailable",
		"the command listens on this machine's own ports, and a profile can't keep one to the loopback or move it",
		`write "0.0.0.0:PORT" (the same port inside and outside), if other machines may reach it`,
	},
	{"limits.cpus", func(in input) bool { return in.limits.CPUs != 0 }, "limit_unavailable", noCgroup, "leave the limit out"},
	{"limits.memory", func(in input) bool { return in.limits.Memory != 0 }, "limit_unavailable", noCgroup, "leave the limit out"},
	{"limits.pids", func(in input) bool { return in.limits.PIDs != 0 }, "limit_unavailable", noCgroup, "leave the limit out"},
	{
		"limits.tmp", func(in input) bool { return in.limits.Tmp != 0 }, "limit_unavailable",
		"the temporary directory is an ordinary one here", "leave the limit out",
	},
	{
		"limits.idle_timeout", func(in input) bool { return in.limits.IdleTimeout != 0 }, "limit_unavailable",
		"the output isn't watched here", "use limits.timeout",
	},
}

const noCgroup = "macOS has no control groups"

// refuseInexpressible refuses the first field that can't be enforced, and a
// layer that doesn't exist here.
func refuseInexpressible(in input) error {
	for _, x := range inexpressibles {
		if !x.set(in) {
			continue
		}
		return &policy.Refusal{
			Reason: policy.Unavailable, Code: x.code, Subject: x.field, Rule: in.position(x.field),
			Why: fmt.Sprintf("cannot enforce %s: %s", x.field, x.why), Fix: x.fix,
		}
	}
	for _, want := range in.require {
		if want != "seatbelt" {
			return &policy.Refusal{
				Reason: policy.Unavailable, Code: "requirement_unmet", Subject: want, Rule: "require",
				Why: fmt.Sprintf("cannot meet requirement %q: on macOS the only layer is seatbelt", want),
				Fix: `remove it from "require", or use a machine that has it`,
			}
		}
	}
	return nil
}

// exposable: a port that is the same inside and outside, on every address.
func exposable(list []policy.Expose) bool {
	for _, e := range list {
		a, err := netip.ParseAddr(e.Address)
		if err != nil || !a.IsUnspecified() || e.Inside != e.Outside {
			return false
		}
	}
	return true
}

// position is where the policy document sets a field, for people.
func (in input) position(field string) string {
	at, ok := in.given[field]
	if !ok || at.File == "" {
		return field
	}
	return fmt.Sprintf("%s:%d:%d %s", at.File, at.Line, at.Column, field)
}
