package guard

import (
	"fmt"
	"slices"

	"pinfold/policy"
)

// checkNeeds refuses a need outside the grant. It never widens the grant.
func (g *gate) checkNeeds() error {
	n := g.request.Needs
	for _, l := range []struct {
		source string
		paths  []string
		write  bool
	}{
		{"needs.read", n.Read, false},
		{"needs.read_only", n.ReadOnly, false},
		{"needs.write", n.Write, true},
	} {
		for i, p := range l.paths {
			if err := g.checkNeed(fmt.Sprintf("%s[%d]", l.source, i), p, l.write); err != nil {
				return err
			}
		}
	}
	if err := g.checkHostNeeds(n.Hosts); err != nil {
		return err
	}
	return g.checkSocketNeeds(n.Sockets)
}

func (g *gate) checkNeed(source, p string, write bool) error {
	b, err := g.literal(source, p, ClassCaller, verbAllow)
	if err != nil {
		return err
	}
	defer b.obj.release()
	v := g.lattice.at(b.obj.path)
	if slices.Contains(privateDirs, b.obj.path) || v.access == ReadWrite || v.access == ReadOnly && !write {
		return nil
	}
	doing, list := "reading", "read.allow"
	if write {
		doing, list = "writing to", "write"
	}
	fix := fmt.Sprintf("add %q to %s in the policy, or drop the need", b.given, list)
	if v.rule.Class == ClassProtected || v.rule.Class == ClassGuarded {
		fix = "drop the need: no list of a policy grants that"
	}
	return refuse("need_outside_grant", b.given, two{b, v.rule},
		fmt.Sprintf("cannot launch: it needs %s %q, which the policy doesn't grant", doing, b.given), fix)
}

func (g *gate) checkHostNeeds(hosts []string) error {
	for i, text := range hosts {
		h, err := policy.ParseHostPattern(text)
		if err != nil {
			r := refuse("need_invalid", text, nil, fmt.Sprintf("cannot read needs.hosts[%d]: %v", i, err), "name a host as in network.allow")
			r.Err = err
			return r
		}
		if err := g.checkHostNeed(h); err != nil {
			return err
		}
	}
	return nil
}

func (g *gate) checkHostNeed(h policy.HostPattern) error {
	n := g.policy.Network
	for _, d := range n.Deny {
		if d.Overlaps(h) {
			return refuse("need_host_denied", h.Text, Rule{Text: d.Text, Source: d.Source},
				fmt.Sprintf("cannot launch: it needs the host %q, which the policy denies", h.Text), "take the entry out of network.deny, or drop the need")
		}
	}
	if slices.ContainsFunc(n.Allow, func(a policy.HostPattern) bool { return a.Covers(h) }) {
		return nil
	}
	return refuse("need_host_outside_grant", h.Text, nil,
		fmt.Sprintf("cannot launch: it needs the host %q, which the policy doesn't grant", h.Text),
		fmt.Sprintf("add %q to network.allow, or drop the need", h.Text))
}

func (g *gate) checkSocketNeeds(sockets []string) error {
	for i, p := range sockets {
		b, err := g.literal(fmt.Sprintf("needs.sockets[%d]", i), p, ClassCaller, verbAllow)
		if err != nil {
			return err
		}
		b.obj.release()
		granted := slices.ContainsFunc(g.sockets, func(s *bound) bool { return s.obj.path == b.obj.path })
		all := g.policy.UnixSockets == policy.SocketsAll && g.lattice.at(b.obj.path).access.readable()
		if !granted && !all {
			return refuse("need_socket_outside_grant", b.given, b,
				fmt.Sprintf("cannot launch: it needs the socket %q, which the policy doesn't grant", b.given),
				fmt.Sprintf("add %q to sockets, or drop the need", b.given))
		}
	}
	return nil
}
