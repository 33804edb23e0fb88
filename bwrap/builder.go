package bwrap

import (
	"fmt"
	"path"
	"strconv"

	"pinfold/guard"
	"pinfold/plan"
	"pinfold/stub/wire"
)

// surface is what a path inside lies on, and so what can be mounted there.
type surface uint8

const (
	surfaceRoot    surface = iota + 1 // the bare root of a built file system
	surfaceHostRO                     // the host's tree, read-only
	surfaceHostRW                     // the host's tree, writable: new mount points show on the host
	surfacePrivate                    // a tmpfs of the launch's own, writable
	surfaceCover                      // a tmpfs that hides what is beneath, read-only in the end
	surfaceFile                       // no directory: nothing can lie beneath
	surfaceProc                       // the sandbox's own /proc
	surfaceDev                        // the sandbox's own /dev
)

// builder collects bubblewrap's operations in the order in which it will do
// them, and with each the line of the plan and the check that belong to it.
type builder struct {
	args     []string
	data     []Datum
	mounts   []plan.Mount
	checks   []wire.Check
	ghosts   []Ghost
	sealed   []string           // tmpfs to be made read-only once all is placed
	surfaces map[string]surface // by mount point
	dirs     map[string]uint32  // directories made on a surface, with their mode
	recipes  map[string]recipe
	later    []later
	// writableFiles are write grants that are no directories.
	writableFiles []string
	covers        int
	tmp           int64 // size of each private directory; 0 for no bound
	ops           int   // mounts that bubblewrap makes
}

func newBuilder() *builder {
	return &builder{surfaces: map[string]surface{}, dirs: map[string]uint32{}, recipes: map[string]recipe{}}
}

// add appends one operation.
func (b *builder) add(args ...string) { b.args = append(b.args, args...) }

// mounted notes one line of the mount table.
func (b *builder) mounted(m plan.Mount, s surface) {
	b.ops++
	b.mounts = append(b.mounts, m)
	b.surfaces[m.Path] = s
}

// bind shows the host's object at its own path, and has the stub compare it.
func (b *builder) bind(p string, id guard.FileID, access guard.Access, kind guard.Kind, rule guard.Rule) {
	flag, s, ro := "--ro-bind", surfaceHostRO, true
	if access == guard.ReadWrite {
		flag, s, ro = "--bind", surfaceHostRW, false
	}
	if kind != guard.Dir {
		s = surfaceFile
		if !ro {
			b.writableFiles = append(b.writableFiles, p)
		}
	}
	b.add(flag, p, p)
	b.mounted(plan.Mount{Path: p, Access: access.String(), Kind: "bind", Rule: rule}, s)
	b.check(wire.Check{Kind: wire.CheckBind, Path: p, Dev: id.Dev, Ino: id.Ino, ReadOnly: ro})
	if ro {
		b.recipes[p] = recipe{kind: showReadOnly, rule: rule}
	}
}

// ownReadOnly makes something of the sandbox's own /proc unwritable. The device
// of that can't be known ahead.
func (b *builder) ownReadOnly(e ProcEntry, rule guard.Rule) {
	b.bind(e.Path, guard.FileID{Ino: e.ID.Ino}, guard.ReadOnly, kindOf(e), rule)
	b.ops-- // for root they are many, and none of them is the policy's
	b.mayBeLater(later{path: e.Path, own: true, dir: e.Dir}, true)
}

// keepDevice makes one of bubblewrap's devices unwritable, but for what is
// written to the device.
func (b *builder) keepDevice(d ProcEntry) {
	b.later = append(b.later, later{path: d.Path, device: true})
	b.check(wire.Check{Kind: wire.CheckBind, Path: d.Path, Dev: d.ID.Dev, Ino: d.ID.Ino, ReadOnly: true})
}

// private mounts a writable tmpfs that nobody else sees.
func (b *builder) private(p string, rule guard.Rule) {
	b.add("--perms", "1777")
	if b.tmp != 0 {
		b.add("--size", strconv.FormatInt(b.tmp, 10))
	}
	b.add("--tmpfs", p)
	b.mounted(plan.Mount{Path: p, Access: "private", Kind: "tmpfs", Rule: rule}, surfacePrivate)
	b.check(wire.Check{Kind: wire.CheckPrivateDir, Path: p, Mode: 0o1777})
}

// coverDir hides a directory behind a tmpfs that is read-only in the end.
// What is granted beneath it is mounted on top before it is sealed.
func (b *builder) coverDir(p string, mode uint32, passed, exists bool, m plan.Mount) {
	if !passed {
		b.mayBeLater(later{path: p, dir: true, mode: mode}, exists)
	}
	b.add("--perms", octal(mode), "--tmpfs", p)
	b.seal(p)
	m.Path, m.Kind = p, "tmpfs"
	b.mounted(m, surfaceCover)
	b.dirs[p] = mode
	kind := wire.CheckEmptyDir
	if passed {
		kind = wire.CheckPassDir
	}
	b.check(wire.Check{Kind: kind, Path: p, ReadOnly: true, Mode: mode})
	if !passed {
		b.recipes[p] = recipe{kind: hideAll, mode: mode, rule: m.Rule}
	}
}

// coverFile hides anything that is no directory behind a file of ours. Each
// needs a descriptor of its own: bubblewrap closes it after one use.
func (b *builder) coverFile(p string, mode uint32, content []byte, exists bool, m plan.Mount) {
	b.covers++
	name := "cover-" + strconv.Itoa(b.covers)
	b.mayBeLater(later{path: p, mode: mode, content: content, data: name}, exists)
	b.dataFile(p, mode, Datum{Name: name, Content: content}, m)
	b.check(wire.Check{Kind: wire.CheckEmptyFile, Path: p, ReadOnly: true, Mode: mode, Size: int64(len(content))})
	b.recipes[p] = recipe{kind: hideAll, mode: mode, content: content, rule: m.Rule}
}

// dataFile mounts a read-only file that holds a descriptor's content.
func (b *builder) dataFile(p string, mode uint32, d Datum, m plan.Mount) {
	b.add("--perms", octal(mode), "--ro-bind-data", fdName(d.Name), p)
	b.data = append(b.data, d)
	m.Path, m.Kind = p, "data"
	b.mounted(m, surfaceFile)
}

func (b *builder) check(c wire.Check) { b.checks = append(b.checks, c) }

// seal makes a tmpfs read-only after everything is placed.
func (b *builder) seal(p string) { b.sealed = append(b.sealed, p) }

// finish seals, the deepest first.
func (b *builder) finish() {
	for i := len(b.sealed) - 1; i >= 0; i-- {
		b.add("--remount-ro", b.sealed[i])
	}
}

// above finds the nearest mount point strictly above a path.
func (b *builder) above(p string) (string, surface) {
	for p != "/" {
		p = path.Dir(p)
		if s, ok := b.surfaces[p]; ok {
			return p, s
		}
	}
	return "", 0
}

// fdName stands for a descriptor's number until the start.
func fdName(name string) string { return "{fd:" + name + "}" }

func octal(mode uint32) string { return fmt.Sprintf("%04o", mode) }
