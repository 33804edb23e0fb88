package container

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"

	"pinfold/guard"
	"pinfold/lease"
	"pinfold/plan"
	"pinfold/policy"
	"pinfold/stub/wire"
)

// surface is what one sees at a path inside, before anything is put there.
type surface int

const (
	surfaceImage surface = iota // the image's own, read-only
	surfaceRW                   // a bind of the host's that may be written
	surfaceRO                   // one that may not
	surfaceFile                 // a bind of something that is no directory
	surfaceCover                // an empty directory of ours
	surfaceTmp                  // a tmpfs
)

// rule is one thing that holds at a path inside.
type rule struct {
	target, source string
	access         guard.Access
	kind           guard.Kind
	id             guard.FileID
	passable       bool
	content        []byte
	from           guard.Rule
	pin            bool // a directory whose name must hold
	submount       bool // a mount of the host's within a grant
}

// builder puts a container's mounts together, parents before children.
type builder struct {
	o        Options
	surfaces map[string]surface
	covers   Covers
	names    map[string]string // of covers, by path inside
	modes    map[string]fs.FileMode
	mounts   []Mount
	checks   []wire.Check
	lines    []plan.Mount
	missing  []lease.Point // on the host
	covered  []string      // on the host, or granted there
	exists   func(string) bool
}

func newBuilder(o Options, exists func(string) bool) *builder {
	return &builder{
		o: o, exists: exists,
		surfaces: map[string]surface{"/": surfaceImage}, names: map[string]string{}, modes: map[string]fs.FileMode{},
	}
}

// above is the nearest place at or above a path, and what stands there.
func (b *builder) above(p string) (string, surface) {
	for d := p; ; d = path.Dir(d) {
		if s, ok := b.surfaces[d]; ok {
			return d, s
		}
	}
}

// put applies one rule.
func (b *builder) put(r rule) error {
	if why := inexpressible(r); why != "" {
		return inexpressibleRefusal(r, why)
	}
	if at, s := b.above(r.target); s == surfaceFile {
		return inexpressibleRefusal(r, fmt.Sprintf("%q above it is no directory", at))
	}
	shows := r.access >= guard.ReadOnly && r.kind != guard.Missing
	if shows {
		return b.show(r)
	}
	return b.hide(r)
}

// show binds what a rule grants.
func (b *builder) show(r rule) error {
	if err := b.mountPoint(r); err != nil {
		return err
	}
	ro := r.access == guard.ReadOnly
	b.depend(r.target)
	b.covered = append(b.covered, r.source) // it may be another's as well
	b.bind(Mount{Source: r.source, Target: r.target, ReadOnly: ro})
	s := surfaceRW
	switch {
	case r.kind != guard.Dir:
		s = surfaceFile
	case ro:
		s = surfaceRO
	}
	b.surfaces[r.target] = s
	if r.id != (guard.FileID{}) {
		b.checks = append(b.checks, wire.Check{Kind: wire.CheckBind, Path: r.target, Dev: r.id.Dev, Ino: r.id.Ino, ReadOnly: ro})
	}
	kind, access := "bind", r.access.String()
	if r.pin {
		access = "pin"
	}
	b.lines = append(b.lines, plan.Mount{Path: r.target, Access: access, Kind: kind, Source: r.source, Rule: r.from})
	return nil
}

// mountPoint sees that an engine finds something to mount on, or makes it
// where nobody minds: in the container's own layer, on a tmpfs, in a cover of
// ours. On the host it must make nothing.
func (b *builder) mountPoint(r rule) error {
	at, s := b.above(r.target)
	switch s {
	case surfaceCover:
		b.passage(at, r.target, r.kind != guard.Dir)
	case surfaceRW, surfaceRO:
		if at != r.target && !b.exists(b.hostPath(at, r.target)) {
			return &policy.Refusal{
				Reason: policy.Unavailable, Code: "no_mount_point", Subject: r.target, Rule: r.from.Text,
				Why: fmt.Sprintf("cannot put anything at %q: nothing stands there in the host's directory %q, and the engine would leave a mount point on the host", r.target, at),
				Fix: fmt.Sprintf("make it first, or leave the entry out (%s)", r.from.Source),
			}
		}
	}
	return nil
}

// hostPath is the host's path of what shows at p, given the bind above it.
func (b *builder) hostPath(at, p string) string {
	for _, m := range slices.Backward(b.mounts) {
		if m.Target == at {
			return moved(p, at, m.Source)
		}
	}
	return p
}

// hide covers what a rule takes away, where it could be seen.
func (b *builder) hide(r rule) error {
	at, s := b.above(r.target)
	switch s {
	case surfaceImage:
		// Nothing of the host shows there. An empty home is shown as one.
		if r.access != guard.Empty || r.kind == guard.File {
			return nil
		}
	case surfaceCover:
		if !r.passable {
			return nil
		}
	case surfaceRO:
		if r.kind == guard.Missing {
			return nil // nobody inside can make it
		}
	case surfaceRW:
		if r.kind == guard.Missing {
			b.haveMade(r, at)
			b.cover(r)
			return nil
		}
	}
	if err := b.mountPoint(r); err != nil {
		return err
	}
	b.cover(r)
	return nil
}

// haveMade has a mount point made on the host for a name that stands for
// nothing yet, and could be made from inside. The directories on the way there
// are missing too, since those that exist are pinned: they are made first, and
// pinned as well.
func (b *builder) haveMade(r rule, at string) {
	for _, dir := range between(at, r.target) {
		host := b.hostPath(at, dir)
		b.addMissing(lease.Point{Path: host, Dir: true})
		b.bind(Mount{Source: host, Target: dir})
		b.surfaces[dir] = surfaceRW
		b.lines = append(b.lines, plan.Mount{Path: dir, Access: "pin", Kind: "bind", Source: host, Rule: r.from})
		at = dir
	}
	b.addMissing(lease.Point{Path: b.hostPath(at, r.target), Dir: coversAsDir(r)})
}

// addMissing: container.mounts may show the same place of the host's twice.
func (b *builder) addMissing(p lease.Point) {
	if !slices.ContainsFunc(b.missing, func(have lease.Point) bool { return have.Path == p.Path }) {
		b.missing = append(b.missing, p)
	}
}

// depend notes that something is mounted over a path of the host's in a write
// grant. What stands there may be a mount point that another launch made.
func (b *builder) depend(target string) {
	if at, s := b.above(target); s == surfaceRW {
		b.covered = append(b.covered, b.hostPath(at, target))
	}
}

// coversAsDir: a name that stands for nothing yet becomes a directory, which
// tools that walk the tree on the host don't notice, unless it is to hold
// something.
func coversAsDir(r rule) bool {
	return r.kind == guard.Dir || r.kind == guard.Missing && len(r.content) == 0
}

// cover mounts an empty object of ours over a path.
func (b *builder) cover(r rule) {
	b.depend(r.target)
	dir := coversAsDir(r)
	name := strconv.Itoa(len(b.covers))
	mode := coverMode(r, dir)
	b.covers = append(b.covers, Cover{Name: name, Dir: dir, Mode: mode, Content: r.content, Inside: r.target})
	b.bind(Mount{Source: path.Join(b.o.Scratch, name), Target: r.target, ReadOnly: true})
	b.names[r.target], b.modes[r.target] = name, mode
	b.surfaces[r.target] = surfaceCover
	if !dir {
		b.surfaces[r.target] = surfaceFile
	}
	b.lines = append(b.lines, plan.Mount{Path: r.target, Access: r.access.String(), Kind: "bind", Rule: r.from})
}

// coverMode is what stat(2) shows inside.
func coverMode(r rule, dir bool) fs.FileMode {
	switch {
	case r.access == guard.Deny && r.passable:
		return 0o111
	case r.access == guard.Deny:
		return 0
	case dir:
		return 0o555
	}
	return 0o444
}

// passage makes the directories and the mount point in a cover that something
// shown beneath it needs, of the cover's own mode.
func (b *builder) passage(at, p string, file bool) {
	name, mode := b.names[at], b.modes[at]
	for _, d := range append(between(at, p), p) {
		c := Cover{Name: moved(d, at, name), Dir: true, Mode: mode}
		if d == p && file {
			c.Dir, c.Mode = false, 0
		}
		if !slices.ContainsFunc(b.covers, func(o Cover) bool { return o.Name == c.Name }) {
			b.covers = append(b.covers, c)
		}
	}
}

func (b *builder) bind(m Mount) { b.mounts = append(b.mounts, m) }

// inexpressible says why a rule can't hold in a container, or "".
func inexpressible(r rule) string {
	switch {
	case r.target == "/":
		return "the root is the image's"
	case isAt(r.target, OwnDir):
		return OwnDir + " is pinfold's own"
	}
	for _, own := range []string{"/proc", "/sys", "/dev"} {
		if isAt(r.target, own) && !isBelow(r.target, "/dev/shm") {
			return own + " is the container's own"
		}
	}
	return ""
}

func inexpressibleRefusal(r rule, why string) error {
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "cannot_express", Subject: r.target, Rule: r.from.Text,
		Why: fmt.Sprintf("cannot make %q %s in a container: %s", r.target, r.access, why),
		Fix: fmt.Sprintf("remove the rule (%s)", r.from.Source),
	}
}
