package container

import (
	"fmt"
	"slices"

	"pinfold/guard"
	"pinfold/policy"
)

// rulesOf are all rules of a Grant by their path inside, parents before
// children: its entries, what container.mounts shows of them elsewhere, the
// directories whose names must hold, and the host's mounts within.
func rulesOf(in input) ([]rule, error) {
	var rules []rule
	for _, e := range in.Entries {
		if !in.isRelayed(e) {
			rules = append(rules, ruleOf(e, e.Path, e.Access))
		}
	}
	rules = append(rules, pinRules(in, "", "", guard.ReadWrite)...)
	rules = append(rules, submountRules(in, "", "", guard.ReadWrite)...)
	for _, m := range in.Maps {
		rules = append(rules, mappingRules(in, m)...)
	}
	slices.SortStableFunc(rules, func(a, b rule) int { return comparePaths(a.target, b.target) })
	return merge(rules)
}

func ruleOf(e guard.Entry, target string, most guard.Access) rule {
	r := rule{
		target: target, source: e.Path, access: e.Access, kind: e.Kind, id: e.ID,
		passable: e.Passable, content: e.Content, from: e.Rule,
	}
	if r.access > most {
		r.access = most
	}
	return r
}

// mappingRules are what one entry of container.mounts comes to: the rules that
// hold at and beneath its source, beneath its target.
func mappingRules(in input, m guard.Mapping) []rule {
	top, ok := in.nearest(m.Source)
	if !ok {
		return nil
	}
	first := ruleOf(top, m.Target, m.Access)
	first.source, first.kind, first.id, first.from = m.Source, m.Kind, m.ID, m.Rule
	rules := []rule{first}
	for _, e := range in.Entries {
		if isBelow(e.Path, m.Source) {
			rules = append(rules, ruleOf(e, moved(e.Path, m.Source, m.Target), m.Access))
		}
	}
	rules = append(rules, pinRules(in, m.Source, m.Target, m.Access)...)
	return append(rules, submountRules(in, m.Source, m.Target, m.Access)...)
}

// pinRules bind each directory that holds something covered onto itself: the
// name of a mount point can't be renamed or removed. Beneath a read-only
// mapping nothing can be.
func pinRules(in input, from, to string, most guard.Access) []rule {
	if most != guard.ReadWrite {
		return nil
	}
	var rules []rule
	for _, p := range in.Pins {
		if from != "" && !isBelow(p.Path, from) {
			continue
		}
		target := p.Path
		if from != "" {
			target = moved(p.Path, from, to)
		}
		text := guard.Rule{Class: guard.ClassBuiltin, Text: "its name must hold", Source: "pinned in " + p.Root}
		rules = append(rules, rule{target: target, source: p.Path, access: guard.ReadWrite, kind: guard.Dir, id: p.ID, from: text, pin: true})
	}
	return rules
}

// submountRules bind the host's mounts within a grant by themselves, with the
// grant's own access: a recursive bind shows them, and only the topmost of one
// that is read-only would be.
func submountRules(in input, from, to string, most guard.Access) []rule {
	var rules []rule
	for _, s := range in.Submounts {
		if from != "" && !isBelow(s.Path, from) {
			continue
		}
		top, ok := in.nearest(s.Path)
		if !ok || top.Access < guard.ReadOnly {
			continue
		}
		target := s.Path
		if from != "" {
			target = moved(s.Path, from, to)
		}
		r := ruleOf(top, target, most)
		r.source, r.id, r.kind, r.submount = s.Path, s.ID, s.Shape, true
		rules = append(rules, r)
	}
	return rules
}

// isRelayed: a listed socket is shown by the supervisor's own in its stead,
// unless it lies in what is shown anyway.
func (in input) isRelayed(e guard.Entry) bool {
	return e.Kind == guard.Other && slices.ContainsFunc(in.Sockets, func(s guard.Socket) bool { return s.Path == e.Path })
}

// merge leaves one rule at each path: an entry says more than a pin or a
// submount at the same one. Two entries are a contradiction.
func merge(rules []rule) ([]rule, error) {
	var out []rule
	for _, r := range rules {
		n := len(out) - 1
		if n < 0 || out[n].target != r.target {
			out = append(out, r)
			continue
		}
		switch last := &out[n]; {
		case r.pin || r.submount:
		case last.pin || last.submount:
			*last = r
		default:
			return nil, &policy.Refusal{
				Reason: policy.Denied, Code: "mount_conflict", Subject: r.target, Rule: r.from.Text,
				Why: fmt.Sprintf("cannot show two things at %q: %s and %s", r.target, last.from, r.from),
				Fix: "give the mount another target",
			}
		}
	}
	return out, nil
}
