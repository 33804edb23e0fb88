package guard

import (
	"path"
	"slices"
	"strings"

	"pinfold/policy"
)

// Mapping is one entry of container.mounts: what the Grant lets the command
// do beneath Source holds beneath Target as well, but for writing, which needs
// Access to say so.
type Mapping struct {
	Source string // canonical
	Target string
	Access Access // ReadOnly or ReadWrite
	Kind   Kind
	ID     FileID
	Rule   Rule
}

// Spelling is a path of the launch as somebody wrote it, where a symbolic
// link stands in it, and the canonical path that it leads to.
type Spelling struct {
	Given     string
	Canonical string
}

// Submount is a mount of the host's that lies beneath something granted.
type Submount struct {
	Path  string
	Shape Kind // of what stands there
	ID    FileID
}

// Mappings are the entries of container.mounts.
func (g *Grant) Mappings() []Mapping { return g.mappings }

// Spellings are the paths of the launch that were written with a symbolic
// link in them, the longest first.
func (g *Grant) Spellings() []Spelling { return g.spellings }

// Submounts are the host's mounts strictly beneath what is granted, parents
// before children. A recursive bind shows them, and an engine makes only its
// own mount read-only, not what is mounted within.
func (g *Grant) Submounts() ([]Submount, error) {
	var out []Submount
	for _, m := range g.table.all {
		v := g.lattice.at(m.point)
		if v.at == "" || v.at == m.point || !v.access.readable() || isOwn(v.at) {
			continue
		}
		o, err := g.fs.lookup(m.point)
		if err != nil {
			return nil, asRefusal(err)
		}
		o.release()
		if o.path == m.point && !o.missing() {
			out = append(out, Submount{Path: m.point, Shape: o.kind, ID: o.id})
		}
	}
	slices.SortFunc(out, func(a, b Submount) int {
		return strings.Compare(strings.ReplaceAll(a.Path, "/", "\x00"), strings.ReplaceAll(b.Path, "/", "\x00"))
	})
	return slices.Compact(out), nil
}

// bindMounts binds container.mounts: a source is granted like any other path,
// and refused like any other.
func (g *gate) bindMounts() error {
	if g.tier() != policy.TierContainer {
		return nil
	}
	for _, m := range g.policy.Container.Mounts {
		v, access, to := verbAllow, ReadOnly, &g.allows
		if m.Mode == "rw" {
			v, access, to = verbWrite, ReadWrite, &g.writes
		}
		b, err := g.bindRule(m.Source, v)
		if err != nil {
			return err
		}
		if b == nil {
			continue
		}
		if b.obj.missing() {
			return refuse("mount_missing", b.given, b, "cannot mount "+quote(b.given)+": nothing stands there", "make it first, or leave the mount out")
		}
		*to = append(*to, b)
		g.mappings = append(g.mappings, Mapping{Source: b.obj.path, Target: path.Clean(m.Target), Access: access, Kind: b.obj.kind, ID: b.obj.id, Rule: b.rule})
	}
	return nil
}

// spellings are the paths written with a link in them.
func (g *gate) spellings() []Spelling {
	var out []Spelling
	places := []*bound{g.places.workspace, g.places.run, g.places.home, g.places.toolbelt}
	for _, b := range slices.Concat(places, g.writes, g.allows, g.shares, g.sockets, g.readOnly) {
		if b == nil || b.alias || b.given == "" || b.given == b.obj.path || b.obj.missing() {
			continue
		}
		if s := (Spelling{Given: b.given, Canonical: b.obj.path}); !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b Spelling) int {
		if d := len(b.Given) - len(a.Given); d != 0 {
			return d
		}
		return strings.Compare(a.Given, b.Given)
	})
	return out
}
