package bwrap

import (
	"slices"
	"strings"

	"pinfold/guard"
	"pinfold/plan"
	"pinfold/policy"
	"pinfold/stub/wire"
)

// place is one thing to put at a path inside.
type place struct {
	path string
	rank int // order at one path: what the tier itself puts there, then the rules
	put  func(*builder) error
}

const (
	rankBuiltin = iota
	rankEntry
)

// build puts everything in its place, whatever is above a path before it.
func build(in input, m Machine, o Options, md mediation) (*builder, error) {
	b := newBuilder()
	b.tmp = in.Limits.Tmp
	places := slices.Concat(rootPlaces(in, m), devPlaces(in, m, o), procPlaces(m), privatePlaces(in, m), linkPlaces(in), namePlaces(in, m, md), entryPlaces(in))
	slices.SortStableFunc(places, func(x, y place) int {
		if c := comparePaths(x.path, y.path); c != 0 {
			return c
		}
		return x.rank - y.rank
	})
	for _, p := range places {
		if err := p.put(b); err != nil {
			return nil, err
		}
	}
	for _, e := range in.Absent {
		b.absent(e)
	}
	b.finish()
	return b, nil
}

// comparePaths orders paths component by component, so that a path comes
// right after all those above it.
func comparePaths(a, b string) int {
	return strings.Compare(strings.ReplaceAll(a, "/", "\x00"), strings.ReplaceAll(b, "/", "\x00"))
}

// isBelow reports whether p lies strictly beneath dir.
func isBelow(p, dir string) bool {
	return p != dir && (dir == "/" || strings.HasPrefix(p, dir+"/"))
}

func builtinRule(text string) guard.Rule {
	return guard.Rule{Class: guard.ClassBuiltin, Text: text, Source: "process tier"}
}

// builtin is a place that the tier itself fills, infallibly.
func builtin(p string, put func(*builder)) place {
	return place{path: p, rank: rankBuiltin, put: func(b *builder) error {
		put(b)
		return nil
	}}
}

// rootPlaces are the root, and /sys where the root doesn't show it read-only.
func rootPlaces(in input, m Machine) []place {
	return []place{
		builtin("/", func(b *builder) {
			switch {
			case in.Base != policy.BaseHost && in.Base != "":
				putBuiltRoot(b)
			case !in.binds("/"):
				b.bind("/", m.Root, guard.ReadOnly, guard.Dir, builtinRule("read.base host"))
			}
		}),
		builtin("/sys", func(b *builder) {
			if _, s := b.above("/sys"); s != surfaceHostRO && !in.binds("/sys") {
				b.bind("/sys", m.Sys, guard.ReadOnly, guard.Dir, builtinRule("/sys"))
			}
		}),
	}
}

// putBuiltRoot starts from bubblewrap's bare root, a tmpfs that its caller
// owns and could write until it is sealed.
func putBuiltRoot(b *builder) {
	b.surfaces["/"] = surfaceRoot
	b.seal("/")
	b.mounts = append(b.mounts, plan.Mount{Path: "/", Access: guard.Empty.String(), Kind: "tmpfs", Rule: builtinRule("read.base")})
	b.check(wire.Check{Kind: wire.CheckPassDir, Path: "/", ReadOnly: true, Mode: 0o755})
}

// devPlaces are the minimal /dev. The whole is sealed: its own tmpfs is small
// but writable otherwise.
func devPlaces(in input, m Machine, o Options) []place {
	places := append(stubPlaces(m, o), devicePlaces(in, m)...)
	return append(places,
		builtin("/dev", func(b *builder) {
			b.add("--dev", "/dev")
			b.mounted(plan.Mount{Path: "/dev", Access: guard.ReadOnly.String(), Kind: "dev", Rule: builtinRule("/dev")}, surfaceDev)
			b.seal("/dev")
			b.check(wire.Check{Kind: wire.CheckPassDir, Path: "/dev", ReadOnly: true, Mode: 0o755})
		}),
		// bubblewrap puts its caller's terminal at /dev/console when its
		// standard output is one; nothing inside may open that.
		builtin("/dev/console", func(b *builder) {
			b.coverFile("/dev/console", 0, nil, false, plan.Mount{Access: guard.Deny.String(), Rule: builtinRule("/dev/console")})
		}),
		builtin("/dev/shm", func(b *builder) { b.private("/dev/shm", builtinRule("/dev/shm")) }),
	)
}

// devicePlaces keep the devices' modes as they are.
func devicePlaces(in input, m Machine) []place {
	var places []place
	for _, d := range m.Devices {
		if !slices.ContainsFunc(in.Entries, func(e guard.Entry) bool { return e.Path == d.Path }) {
			places = append(places, builtin(d.Path, func(b *builder) { b.keepDevice(d) }))
		}
	}
	return places
}

// stubPlaces are a file for the stub, where it needs one.
func stubPlaces(m Machine, o Options) []place {
	if m.RunsMemfd {
		return nil
	}
	return []place{builtin(StubPath, func(b *builder) {
		b.dataFile(StubPath, 0o555, o.Parts.stub(), plan.Mount{Access: guard.ReadOnly.String(), Rule: builtinRule("stub")})
	})}
}

// procPlaces are the pid namespace's own /proc, less what tells about or acts
// on the whole machine: uid 0 inside is uid 0 outside where files of /proc
// are concerned, capabilities or not.
func procPlaces(m Machine) []place {
	places := []place{builtin("/proc", func(b *builder) {
		b.add("--proc", "/proc")
		b.mounted(plan.Mount{Path: "/proc", Access: guard.ReadWrite.String(), Kind: "proc", Rule: builtinRule("/proc")}, surfaceProc)
	})}
	for _, e := range m.ProcReadOnly {
		places = append(places, builtin(e.Path, func(b *builder) {
			b.ownReadOnly(e, builtinRule(e.Path))
		}))
	}
	for _, e := range m.ProcMasks {
		places = append(places, builtin(e.Path, func(b *builder) {
			mount := plan.Mount{Access: guard.Deny.String(), Rule: builtinRule(e.Path)}
			if e.Dir {
				b.coverDir(e.Path, 0, false, true, mount)
				return
			}
			b.coverFile(e.Path, 0, nil, true, mount)
		}))
	}
	return places
}

func kindOf(e ProcEntry) guard.Kind {
	if e.Dir {
		return guard.Dir
	}
	return guard.Other
}

// privatePlaces are the launch's own temporary directories, less those that a
// rule replaces by the host's.
func privatePlaces(in input, m Machine) []place {
	var places []place
	for _, p := range privateDirs(in, m) {
		places = append(places, builtin(p, func(b *builder) {
			if _, s := b.above(p); s != surfaceCover {
				b.private(p, builtinRule(p))
			}
		}))
	}
	return places
}

// privateDirs are the temporary directories as this root has them: a built
// one has both, the host's has those that are no links.
func privateDirs(in input, m Machine) []string {
	dirs := m.Private
	if in.Base != policy.BaseHost && in.Base != "" {
		dirs = []string{"/tmp", "/var/tmp"}
	}
	return slices.DeleteFunc(slices.Clone(dirs), in.binds)
}

// binds reports whether a rule shows the host's own object at a path.
func (in input) binds(p string) bool {
	return slices.ContainsFunc(in.Entries, func(e guard.Entry) bool {
		return e.Path == p && e.Access >= guard.ReadOnly && e.Kind != guard.Missing
	})
}

// linkPlaces are the links that a built root keeps.
func linkPlaces(in input) []place {
	var places []place
	for _, l := range in.Links {
		places = append(places, builtin(l.Path, func(b *builder) {
			b.add("--symlink", l.Target, l.Path)
			b.mounts = append(b.mounts, plan.Mount{Path: l.Path, Access: guard.ReadOnly.String(), Kind: "symlink", Source: l.Target, Rule: builtinRule("read.base")})
		}))
	}
	return places
}
