package guard

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"pinfold/policy"
)

// checkLinks refuses files in the write grants that have a name elsewhere:
// writing to them would write there. A name that is covered counts as
// elsewhere.
func (g *gate) checkLinks(ctx context.Context, found walkResult) error {
	first := g.count(found)
	if len(first.open()) == 0 {
		return nil
	}
	// Somebody may be at work there: git, for one, gives each new object a
	// second name for a moment. What is so at a second look too stays so.
	again, err := g.walkGrants(ctx)
	if err != nil {
		return err
	}
	l := g.count(again)
	maps.DeleteFunc(l, func(id FileID, _ *account) bool { return !first.isOpen(id) })
	if err := g.allowFrom(ctx, l); err != nil {
		return err
	}
	if open := l.open(); len(open) > 0 {
		return g.linkRefusal(open)
	}
	return nil
}

// count adds up the names that may be written.
func (g *gate) count(found walkResult) ledger {
	l := ledger{}
	for _, n := range found.linked {
		if g.lattice.writable(n.path) {
			l.add(n)
		}
	}
	return l
}

// account is what is known of one object's names.
type account struct {
	first named
	seen  uint64
}

// ledger counts the names of each object.
type ledger map[FileID]*account

func (l ledger) add(n named) {
	a := l[n.id]
	if a == nil {
		a = &account{first: n}
		l[n.id] = a
	}
	if n.path < a.first.path {
		a.first = n
	}
	a.seen++
}

func (l ledger) isOpen(id FileID) bool {
	a := l[id]
	return a != nil && a.seen < a.first.links
}

// open are the accounts with names that weren't seen, by path.
func (l ledger) open() []*account {
	var out []*account
	for _, a := range l {
		if a.seen < a.first.links {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(a, b *account) int { return cmp.Compare(a.first.path, b.first.path) })
	return out
}

// allowFrom counts the names in the stores of hard_links.allow_from as known:
// what is written to such a file goes through to the store.
func (g *gate) allowFrom(ctx context.Context, l ledger) error {
	for _, r := range g.policy.HardLinks.AllowFrom {
		store, err := g.bindStore(r)
		if err != nil {
			return err
		}
		if store == nil {
			continue
		}
		found, err := g.fs.walk(ctx, walkRequest{
			roots: []walkRoot{{path: store.obj.path, id: store.obj.id}}, limit: g.limit(), uid: uint32(g.request.UID),
		})
		if err != nil {
			return g.walkRefusal(err)
		}
		through := 0
		for _, n := range found.linked {
			if a := l[n.id]; a != nil && !g.lattice.writable(n.path) {
				a.seen++
				through++
			}
		}
		if through > 0 {
			g.note(fmt.Sprintf("%s: writing to %d files goes through to %s", store, through, store.obj.path))
		}
	}
	return nil
}

// bindStore binds a store; nil where there is none.
func (g *gate) bindStore(r policy.PathRule) (*bound, error) {
	b, err := g.bindRule(r, verbAllow)
	if err != nil || b == nil || b.obj.kind != Dir {
		return nil, err
	}
	if l := g.reaimable(b); l != nil {
		return nil, refuse("reaimable_symlink", l.path, b,
			fmt.Sprintf("cannot allow hard links from %q: it is reached through %q, a symbolic link in a write grant", b.given, l.path),
			fmt.Sprintf("name what it leads to: %q", b.obj.path))
	}
	if v := g.lattice.at(b.obj.path); v.access == Deny || v.access == Empty {
		return nil, refuse("contradiction", b.given, two{b, v.rule},
			fmt.Sprintf("cannot allow hard links from %q: it is denied", b.given), two{b, v.rule}.keepOne())
	}
	return b, nil
}

// linkRefusal names the first file, how many there are, and the cure.
func (g *gate) linkRefusal(open []*account) error {
	a := open[0]
	why := fmt.Sprintf("cannot grant writing to %q: it has %d names (hard links), and only %d of them may be written",
		a.first.path, a.first.links, a.seen)
	if len(open) > 1 {
		why += fmt.Sprintf("; so it is with %d files", len(open))
	}
	return refuse("hard_link", a.first.path, g.lattice.at(a.first.path).rule, why, cure(a.first.path))
}

// cure says how to get rid of hard links, by who is known to make them.
func cure(p string) string {
	const orStore = `, or list the store in "hard_links": {"allow_from": […]}`
	switch {
	case strings.HasSuffix(p, "/objects/pack/multi-pack-index"):
		return "rm " + quote(p) + ": git does without it"
	case strings.Contains(p, "/.git/") || strings.Contains(p, "/objects/"):
		return "git clone --no-hardlinks makes copies; for a clone that exists: git repack -a -d && git prune-packed && git commit-graph write --reachable"
	case strings.Contains(p, "/node_modules/"):
		return "pnpm config set package-import-method copy, then install again" + orStore
	case strings.Contains(p, "/site-packages/"):
		return "install again with uv --link-mode=copy (UV_LINK_MODE=copy)" + orStore
	case strings.Contains(p, "/target/"):
		return "cargo links within its target directory: grant the whole of it, or set CARGO_TARGET_DIR to a directory in the workspace"
	}
	return fmt.Sprintf("cp -p %[1]s %[1]s.copy && mv %[1]s.copy %[1]s%[2]s", quote(p), orStore)
}
