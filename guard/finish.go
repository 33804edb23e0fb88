package guard

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"pinfold/policy"
)

// finish makes the Grant.
func (g *gate) finish() (*Grant, error) {
	dir, err := g.startDir()
	if err != nil {
		return nil, err
	}
	env, withheld, err := g.environment(dir)
	if err != nil {
		return nil, err
	}
	d := g.lattice.derive()
	if err := g.checkCoverable(d); err != nil {
		return nil, err
	}
	if err := g.checkReachable(d); err != nil {
		return nil, err
	}
	g.watchBarred(&d)
	pins, err := g.lattice.pins(d.entries, d.watches, g.idOf)
	if err != nil {
		return nil, err
	}
	if err := g.checkCount(d.entries, pins); err != nil {
		return nil, err
	}
	grant := &Grant{
		tier: g.tier(), base: g.base(), entries: d.entries, watches: append(d.watches, g.growing...), absent: d.absent, pins: pins,
		links: g.links(), sockets: g.grantedSockets(), network: g.policy.Network, unix: g.unixSockets(),
		limits: g.policy.Limits, require: slices.Clone(g.policy.Require), argv: slices.Clone(g.request.Argv),
		dir: dir, env: env, withheld: withheld, paths: g.paths, owner: g.request.Owner, notes: g.notes,
		policy: g.policy, lattice: g.lattice, table: g.table, fs: g.fs, mappings: g.mappings, spellings: g.spellings(), directories: g.directories,
	}
	if err := g.hold(grant); err != nil {
		grant.Close()
		return nil, err
	}
	return grant, nil
}

// idOf names the directory at a canonical path.
func (g *gate) idOf(dir string) (FileID, error) {
	o, err := g.fs.lookup(dir)
	if err != nil {
		return FileID{}, err
	}
	defer o.release()
	if o.missing() {
		return FileID{}, vanished{fmt.Errorf("cannot look at %q: %w", dir, fs.ErrNotExist)}
	}
	if o.path != dir {
		return FileID{}, errMoved(dir)
	}
	return o.id, nil
}

func errMoved(p string) error {
	return refuse("changed_meanwhile", p, nil, fmt.Sprintf("cannot launch: %q changed while it was looked at", p), "try again once nothing renames it")
}

// hold keeps a descriptor of every object that the Grant names, so that its
// device and inode number can't come to mean another one.
func (g *gate) hold(grant *Grant) error {
	for _, e := range grant.entries {
		if e.Kind == Missing {
			continue
		}
		h, err := g.holdEntry(e)
		if err != nil {
			return err
		}
		grant.held = append(grant.held, h)
	}
	return nil
}

// holdEntry takes over the descriptor that the path was resolved with, where
// there is one.
func (g *gate) holdEntry(e Entry) (io.Closer, error) {
	if n := g.lattice.nodes[e.Path]; n != nil && n.obj.handle != nil {
		for _, b := range g.bounds() {
			if b.obj.handle == n.obj.handle {
				b.obj.handle = nil
				return n.obj.handle, nil
			}
		}
	}
	h, err := g.fs.hold(e.Path, e.ID)
	if err != nil {
		r := refuse("changed_meanwhile", e.Path, e.Rule, err.Error(), "try again once nothing replaces it")
		r.Err = asVanished(err, e.Rule.Class)
		return nil, r
	}
	return h, nil
}

func (g *gate) unixSockets() policy.UnixSockets {
	if g.policy.UnixSockets == "" {
		return policy.SocketsListed
	}
	return g.policy.UnixSockets
}

// grantedSockets are the sockets of the policy that exist.
func (g *gate) grantedSockets() []Socket {
	var out []Socket
	for _, b := range g.sockets {
		same := func(s Socket) bool { return s.Path == b.obj.path }
		if b.obj.socket && !slices.ContainsFunc(out, same) {
			out = append(out, Socket{Path: b.obj.path, ID: b.obj.id, Rule: b.rule})
		}
	}
	slices.SortFunc(out, func(a, b Socket) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// checkCoverable refuses what no cover could stand on.
func (g *gate) checkCoverable(d derived) error {
	for _, e := range d.entries {
		if e.Kind != Missing {
			continue
		}
		switch n := g.lattice.nodes[e.Path]; n.obj.end {
		case endBlunt:
			return refuse("not_a_directory", e.Path, e.Rule,
				fmt.Sprintf("cannot keep %q from being made: %q in its path is no directory, and could become one", e.Path, n.obj.exists),
				"name what exists, or leave the entry out")
		case endUnreachable:
			return refuse("unreachable", e.Path, e.Rule,
				fmt.Sprintf("cannot deny %q: %q can't be looked into now, and could be from inside", e.Path, n.obj.exists),
				"chmod u+x "+quote(n.obj.exists))
		}
	}
	return nil
}

// asRefusal makes every failure one: nothing runs, and the answer has one
// form.
func asRefusal(err error) error {
	if r, ok := errors.AsType[*policy.Refusal](err); ok {
		return r
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &policy.Refusal{
			Reason: policy.Unavailable, Code: "cancelled", Why: fmt.Sprintf("cannot launch: %v while the grants were looked through", err),
			Err: err, Fix: "start again, with a smaller grant if it takes too long",
		}
	}
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "cannot_look", Why: err.Error(), Err: err,
		Fix: "see to what the message names, then try again",
	}
}
