package guard

import (
	"slices"

	"pinfold/policy"
)

// hidden is the access where nothing of the host shows.
const hidden Access = 0

// node is everything that the rules say about one canonical path.
type node struct {
	path string
	obj  object
	// The rules at this path, the strongest of each verb.
	grant   *bound // write before allow
	cap     *bound // read_only
	deny    *bound // an error before an empty look
	protect *bound
	except  *bound
	// own: the launch has its own directory here, and nothing of the host's.
	own bool
}

// lattice answers what holds at a path: the most specific rule wins, whatever
// list it is in; at equal paths deny beats read_only beats write beats allow.
type lattice struct {
	base  policy.ReadBase
	nodes map[string]*node
}

// verdict is what holds at a path, and the rule that decided.
type verdict struct {
	access Access
	rule   Rule
	// at is the path of the node that decided; "" where the base did.
	at string
	// protected: a protected path lies above, and no exception below it.
	protected *bound
	// policy is the access less the protection, which an exception restores.
	policy     Access
	policyRule Rule
	policyAt   string
}

// privateDirs are the launch's own, whatever the base.
var privateDirs = []string{"/tmp", "/var/tmp", "/dev/shm"} //nolint:gochecknoglobals // a table

// kernelDirs are made for the launch by the kernel or the back end.
var kernelDirs = []string{"/proc", "/dev"} //nolint:gochecknoglobals // a table

func newLattice(base policy.ReadBase) *lattice {
	l := &lattice{base: base, nodes: map[string]*node{}}
	for _, dirs := range [][]string{privateDirs, kernelDirs} {
		for _, d := range dirs {
			l.nodes[d] = &node{path: d, own: true, obj: object{path: d, exists: d, kind: Dir}}
		}
	}
	return l
}

// isOwn reports whether p is one of the directories that a launch has for
// itself.
func isOwn(p string) bool {
	return slices.Contains(privateDirs, p) || slices.Contains(kernelDirs, p)
}

// add records a rule at the path that it leads to. A weaker rule of the same
// verb is dropped: its words would only mislead.
func (l *lattice) add(b *bound) {
	n := l.nodes[b.obj.path]
	if n == nil {
		n = &node{path: b.obj.path, obj: b.obj}
		l.nodes[n.path] = n
	}
	if n.obj.handle == nil && !n.own {
		n.obj = b.obj
	}
	slot := n.slot(b.verb)
	if *slot == nil || stronger(b, *slot) {
		*slot = b
	}
}

func (n *node) slot(v verb) **bound {
	switch v {
	case verbAllow, verbWrite:
		return &n.grant
	case verbReadOnly:
		return &n.cap
	case verbDeny:
		return &n.deny
	case verbProtect:
		return &n.protect
	case verbExcept:
	}
	return &n.except
}

// stronger orders two rules of one slot. Where they do the same, the one that
// a person wrote gives the words.
func stronger(a, b *bound) bool {
	if a.verb != b.verb {
		return a.verb == verbWrite
	}
	if a.verb == verbDeny && a.rule.Class != b.rule.Class {
		return classRank(a.rule.Class) < classRank(b.rule.Class)
	}
	if a.verb == verbDeny && a.look != b.look {
		return a.look != policy.DenyEmpty
	}
	if ra, rb := classRank(a.rule.Class), classRank(b.rule.Class); ra != rb {
		return ra < rb
	}
	return a.rule.String() < b.rule.String() // whatever the order of the rules
}

func classRank(c Class) int {
	return slices.Index([]Class{ClassPolicy, ClassCaller, ClassBuiltin, ClassProtected, ClassGuarded, ClassDefault}, c)
}

// at is what holds at a clean absolute path.
func (l *lattice) at(p string) verdict {
	v := l.start()
	for _, dir := range append(ancestors(p), p) {
		if n := l.nodes[dir]; n != nil {
			v = v.step(n)
		}
	}
	return v
}

// writable reports whether what stands at a path, or could, may be written.
func (l *lattice) writable(p string) bool { return l.at(p).access == ReadWrite }

// above is what holds just above a path.
func (l *lattice) above(p string) verdict {
	v := l.start()
	for _, dir := range ancestors(p) {
		if n := l.nodes[dir]; n != nil {
			v = v.step(n)
		}
	}
	return v
}

func (l *lattice) start() verdict {
	v := verdict{policyRule: Rule{Class: ClassBuiltin, Text: string(l.base), Source: "read.base"}}
	if l.base == policy.BaseHost {
		v.policy = ReadOnly
	}
	v.access, v.rule = v.policy, v.policyRule
	return v
}

// step goes down into a node.
func (v verdict) step(n *node) verdict {
	if n.own {
		v.policy, v.policyAt = hidden, n.path
		v.policyRule = Rule{Class: ClassBuiltin, Text: n.path, Source: "the launch's own"}
	}
	v = v.policyStep(n)
	switch {
	case n.except != nil:
		v.protected = nil
	case n.protect != nil:
		v.protected = n.protect
	}
	v.access, v.rule, v.at = v.policy, v.policyRule, v.policyAt
	if v.protected != nil {
		v.access, v.rule, v.at = Deny, v.protected.rule, v.protected.obj.path
	}
	return v
}

func (v verdict) policyStep(n *node) verdict {
	set := func(a Access, b *bound) {
		v.policy, v.policyRule, v.policyAt = a, b.rule, n.path
	}
	switch g := n.grant; {
	case g == nil:
	case g.verb == verbWrite:
		set(ReadWrite, g)
	case v.policy != ReadWrite && v.policy != ReadOnly:
		set(ReadOnly, g)
	}
	if n.cap != nil && v.policy == ReadWrite {
		set(ReadOnly, n.cap)
	}
	if d := n.deny; d != nil && v.policy != Deny && (v.policy != Empty || n.grant != nil) {
		set(denyAccess(d), d)
	}
	return v
}

func denyAccess(b *bound) Access {
	if b.look == policy.DenyEmpty {
		return Empty
	}
	return Deny
}

// readable reports whether the host's object shows.
func (a Access) readable() bool { return a == ReadOnly || a == ReadWrite }

// sorted are the nodes, parents before children.
func (l *lattice) sorted() []*node {
	out := make([]*node, 0, len(l.nodes))
	for _, n := range l.nodes {
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b *node) int { return comparePaths(a.path, b.path) })
	return out
}

// each visits the nodes, parents before children, with what holds there and
// just above.
func (l *lattice) each(visit func(n *node, v, up verdict)) {
	type level struct {
		path string
		v    verdict
	}
	var stack []level
	for _, n := range l.sorted() {
		for len(stack) > 0 && !beneath(n.path, stack[len(stack)-1].path) {
			stack = stack[:len(stack)-1]
		}
		up := l.start()
		if len(stack) > 0 {
			up = stack[len(stack)-1].v
		}
		v := up.step(n)
		stack = append(stack, level{n.path, v})
		visit(n, v, up)
	}
}
