package guard

import (
	"fmt"
	"slices"

	"pinfold/policy"
)

// bindAliases denies the other places that show what is denied or protected,
// and the further views of the kernel's own file systems.
func (g *gate) bindAliases() error {
	list, err := g.mounts()
	if err != nil {
		return err
	}
	list = g.placeLayers(list)
	g.table = newMountTable(list)
	if len(list) > 0 && g.table.root < 0 {
		return &policy.Refusal{
			Reason: policy.Unavailable, Code: "no_root_mount", Subject: "/",
			Why: "cannot tell what is mounted where: the root directory is no mount (a chroot)",
			Fix: "start pinfold outside the chroot, or make its root a mount: mount --bind DIR DIR",
		}
	}
	for _, l := range []*[]*bound{&g.protects, &g.denies, &g.defaults, &g.readOnly} {
		for _, b := range slices.Clone(*l) {
			found, err := g.aliasesOf(b)
			if err != nil {
				return err
			}
			*l = append(*l, found...)
		}
	}
	if err := g.bindUnplaced(list); err != nil {
		return err
	}
	return g.bindKernelViews(list)
}

// aliasesOf are the rules that say at the other places what b says at its
// own.
func (g *gate) aliasesOf(b *bound) ([]*bound, error) {
	if b.obj.missing() {
		return nil, nil
	}
	var out []*bound
	for _, q := range g.table.aliases(b.obj.path) {
		a := *b
		a.alias = true
		a.rule.Text = fmt.Sprintf("%s (mounted at %s as well)", b.rule.Text, q)
		o, err := g.fs.lookup(q)
		if err != nil {
			return nil, err
		}
		o.release()
		if o.missing() || o.path != q {
			continue // mounted over, or out of this user's reach
		}
		a.obj = o
		out = append(out, &a)
	}
	return out, nil
}

// bindKernelViews hides every further procfs: one of the host's shows the
// host's processes, and leads through their root directories to anything.
// What else shows the kernel isn't written to.
func (g *gate) bindKernelViews(list []mount) error {
	for _, m := range list {
		if !isKernelFS(m.kind) || within(m.point, "/proc") || within(m.point, "/sys") || within(m.point, "/dev") {
			continue
		}
		v := verbDeny
		if m.kind != "proc" {
			if v = verbReadOnly; !g.granted(m.point) {
				continue
			}
		}
		b, err := g.literal("mount table", m.point, ClassBuiltin, v)
		if err != nil {
			return err
		}
		b.rule.Text = fmt.Sprintf("%s of the host at %s", m.kind, m.point)
		if b.obj.missing() || b.obj.path != m.point {
			continue
		}
		g.kernelViews = append(g.kernelViews, b)
	}
	return nil
}

// granted reports whether a path lies in a write grant.
func (g *gate) granted(p string) bool {
	return slices.ContainsFunc(g.writes, func(w *bound) bool { return within(p, w.obj.path) })
}

// checkKernelView refuses grants in a further procfs.
func (g *gate) checkKernelView(b *bound) error {
	for _, k := range g.kernelViews {
		if k.verb == verbDeny && within(b.obj.path, k.obj.path) {
			return refuse("kernel_directory", b.given, two{b, k},
				fmt.Sprintf("cannot grant %q: it lies in a procfs that shows the host's processes", b.given), "leave the entry out")
		}
	}
	return nil
}
