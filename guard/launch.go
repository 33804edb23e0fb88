package guard

import (
	"context"
	"slices"

	"pinfold/policy"
)

// GuardLaunch is the one gate: it turns a policy, a request and the caller's
// protected set into a Grant, or refuses with a *policy.Refusal. It changes
// nothing on the host. The caller closes the Grant.
//
// ctx bounds the walks over the write grants.
func GuardLaunch(ctx context.Context, p *policy.Policy, r Request, protected []string) (*Grant, error) {
	return newGate(thisHost(), p, r, protected).launch(ctx)
}

// host is what the gate asks of the machine.
type host struct {
	fs fsys
	// homeOf is the home directory of a user according to the machine, ""
	// where it knows none.
	homeOf func(uid int) string
	// mounts is the mount table.
	mounts func() ([]mount, error)
	// unmapped reports a user who stands for all that this user namespace
	// doesn't map, user_namespaces(7).
	unmapped func(uid uint32) bool
	// private reports whether a group has no member but trusted users.
	private func(gid uint32, trusted func(uid uint32) bool) bool
}

// gate is one run of GuardLaunch.
type gate struct {
	host
	policy    *policy.Policy
	request   Request
	protected []string

	paths  Paths
	places places
	// rules are all rules bound to paths, by where they come from.
	writes, allows, readOnly, denies []*bound
	protects, excepts, defaults      []*bound
	guarded                          []*bound
	// followed are the guarded directories, those outside of the write grants
	// included.
	followed []*bound
	// topGrants are the policy's write grants that lie in no other one.
	topGrants []string
	// canonicalHomes are kept by sessionHomes.
	canonicalHomes []string
	// reopened are the git directories that stay writable in guarded ones, and
	// growing the directories of linked worktrees.
	reopened []*bound
	growing  []Watch
	// directories are those of the write grants.
	directories *Directories
	sockets     []*bound
	// shares are the grants that aren't the policy's: --share, read.base.
	shares []*bound
	// allDefaults are the default denies, those that the policy lifts
	// included.
	allDefaults []*bound
	emptyHome   *bound
	// kernelViews are further mounts of the kernel's file systems.
	kernelViews []*bound
	// unplaced are overlays that show nobody knows what.
	unplaced []*bound
	table    *mountTable
	kept     int // descriptors
	lattice  *lattice
	notes    []string
	mappings []Mapping
}

func newGate(h host, p *policy.Policy, r Request, protected []string) *gate {
	return &gate{host: h, policy: p, request: r, protected: protected}
}

func (g *gate) launch(ctx context.Context) (*Grant, error) {
	defer g.fs.close()
	defer g.releaseAll()
	grant, err := g.run(ctx)
	if err != nil {
		return nil, asRefusal(err)
	}
	return grant, nil
}

// run takes the steps in order; the first refusal ends it.
func (g *gate) run(ctx context.Context) (*Grant, error) {
	before := []func() error{
		g.checkRequest, g.locate, g.bindPolicy, g.bindCaller, g.bindProtected, g.bindDefaults, g.bindSystem, g.bindAliases,
		g.checkGrants, g.checkTrust, g.checkRun, g.checkProtected, g.checkDefaults, g.checkSpellings,
	}
	for _, step := range before {
		if err := step(); err != nil {
			return nil, err
		}
	}
	g.build()
	if err := g.bindGitCommon(ctx); err != nil {
		return nil, err
	}
	g.build()
	if err := g.survey(ctx); err != nil {
		return nil, err
	}
	for _, step := range []func() error{g.checkReaim, g.checkAllows, g.checkNeeds} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return g.finish()
}

// build makes the lattice of everything bound so far.
func (g *gate) build() {
	g.lattice = newLattice(g.base())
	for _, b := range g.bounds() {
		g.place(b)
	}
	if b := g.emptyHome; b != nil && g.lattice.at(b.obj.path).access == hidden {
		g.place(b)
	}
}

// place adds a rule to the lattice, unless it stands at a directory that the
// launch has for itself anyway.
func (g *gate) place(b *bound) {
	if b.obj.path == "/sys" || !isOwn(b.obj.path) {
		g.lattice.add(b)
	}
}

// bounds are all rules that say something about the file system.
func (g *gate) bounds() []*bound {
	return slices.Concat(g.excepts, g.protects, g.writes, g.allows, g.shares, g.readOnly, g.denies, g.sockets, g.defaults, g.guarded, g.reopened, g.kernelViews, g.unplaced)
}

// base is what shows before any rule. In a container that is nothing of the
// host's.
func (g *gate) base() policy.ReadBase {
	switch {
	case g.tier() == policy.TierContainer:
		return policy.BaseNone
	case g.policy.Read.Base == "":
		return policy.BaseHost
	}
	return g.policy.Read.Base
}

func (g *gate) tier() policy.Tier {
	if g.policy.Tier == "" {
		return policy.TierProcess
	}
	return g.policy.Tier
}

func (g *gate) releaseAll() {
	for _, b := range g.bounds() {
		b.obj.release()
	}
}
