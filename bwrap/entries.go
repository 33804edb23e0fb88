package bwrap

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"pinfold/guard"
	"pinfold/plan"
	"pinfold/policy"
	"pinfold/stub/wire"
)

// entryPlaces are the rules of the Grant.
func entryPlaces(in input) []place {
	var places []place
	for _, e := range in.Entries {
		places = append(places, place{path: e.Path, rank: rankEntry, put: func(b *builder) error {
			return b.entry(in, e)
		}})
	}
	return places
}

// entry puts one rule in its place.
func (b *builder) entry(in input, e guard.Entry) error {
	if why := inexpressible(e); why != "" {
		return inexpressibleRefusal(e, why)
	}
	if _, s := b.above(e.Path); s == surfaceFile {
		return inexpressibleRefusal(e, "what is above it inside is no directory")
	}
	switch e.Access {
	case guard.ReadWrite, guard.ReadOnly:
		return b.show(in, e)
	case guard.Deny, guard.Empty:
		b.hide(e)
		return nil
	}
	return fmt.Errorf("internal error: entry %q has access %d", e.Path, e.Access)
}

// show binds what a rule grants.
func (b *builder) show(in input, e guard.Entry) error {
	if e.Kind == guard.Missing {
		if e.Access == guard.ReadWrite {
			return fmt.Errorf("internal error: write grant of %q, where nothing stands", e.Path)
		}
		b.hide(e)
		return nil
	}
	b.passage(e.Path)
	if e.Access == guard.ReadWrite {
		b.bury(in, e)
	}
	b.bind(e.Path, e.ID, e.Access, e.Kind, e.Rule)
	return nil
}

// hide covers what a rule takes away, where something is or could be there.
func (b *builder) hide(e guard.Entry) {
	if !b.needsCover(e) {
		b.absent(e)
		return
	}
	b.passage(e.Path)
	if _, s := b.above(e.Path); s == surfaceHostRW && e.Kind == guard.Missing {
		b.ghosts = append(b.ghosts, Ghost{Path: e.Path, Dir: coversAsDir(e)})
	}
	m := plan.Mount{Access: e.Access.String(), Rule: e.Rule}
	if coversAsDir(e) {
		b.coverDir(e.Path, coverMode(e), e.Passable, e.Kind != guard.Missing, m)
		return
	}
	b.coverFile(e.Path, coverMode(e), e.Content, e.Kind != guard.Missing, m)
}

// needsCover reports whether a path that a rule takes away must be mounted
// over. On a read-only tree of the host nothing can be made where nothing is,
// on a bare root nothing shows by itself; a tmpfs of the launch's own is
// covered all the same, since a write to a denied path must fail and not
// vanish with the tmpfs.
func (b *builder) needsCover(e guard.Entry) bool {
	_, s := b.above(e.Path)
	switch s {
	case surfaceHostRO, surfaceProc:
		return e.Kind != guard.Missing
	case surfaceRoot:
		return e.Passable || e.Access == guard.Empty // an empty home
	case surfaceCover:
		return e.Passable
	case surfaceDev:
		return slices.Contains(devNodes, e.Path)
	}
	return true
}

// absent has the stub make sure that nothing stands at a path that has no
// cover, where it can look: beneath a cover of mode 0000 it can't.
func (b *builder) absent(e guard.Entry) {
	if from, s := b.above(e.Path); s == surfaceCover && b.dirs[from] == 0 {
		return
	}
	b.check(wire.Check{Kind: wire.CheckAbsent, Path: e.Path})
	b.recipes[e.Path] = recipe{kind: hideAll, mode: coverMode(e), content: e.Content, rule: e.Rule}
}

// coversAsDir: a name that stands for nothing yet becomes a directory, which
// tools that walk the tree on the host don't notice (git leaves an empty one
// alone), unless it is to hold something.
func coversAsDir(e guard.Entry) bool {
	return e.Kind == guard.Dir || e.Kind == guard.Missing && len(e.Content) == 0
}

// coverMode is what stat(2) shows inside.
func coverMode(e guard.Entry) uint32 {
	switch {
	case e.Access == guard.Deny && e.Passable:
		return 0o111
	case e.Access == guard.Deny:
		return 0
	case coversAsDir(e):
		return 0o555
	}
	return 0o444
}

// passage makes the directories between a cover and something shown beneath
// it, with the cover's own mode: they can be passed through, and tell no more
// than the cover does. Left to itself bubblewrap would make them 0755.
func (b *builder) passage(p string) {
	from, s := b.above(p)
	if s != surfaceCover {
		return
	}
	mode := b.dirs[from]
	for _, dir := range between(from, p) {
		if _, made := b.dirs[dir]; made {
			continue
		}
		b.add("--perms", octal(mode), "--dir", dir)
		b.dirs[dir] = mode
	}
}

// between lists the directories strictly between an ancestor and a path.
func between(ancestor, p string) []string {
	var dirs []string
	for d := path.Dir(p); isBelow(d, ancestor); d = path.Dir(d) {
		dirs = append(dirs, d)
	}
	slices.Reverse(dirs)
	return dirs
}

// devNodes are the devices that bubblewrap's /dev has.
var devNodes = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}

// devLinks are what bubblewrap makes a symbolic link in /dev; newer versions
// mount on none.
var devLinks = []string{"/dev/fd", "/dev/core", "/dev/ptmx", "/dev/stdin", "/dev/stdout", "/dev/stderr"}

// inexpressible says why a rule can't hold in this tier, or "".
func inexpressible(e guard.Entry) string {
	shows := e.Access >= guard.ReadOnly
	switch {
	case e.Path == "/" && !shows:
		return "the root itself can't be hidden"
	case e.Path == "/proc" || e.Path == "/dev" || e.Path == StubPath:
		return "it is the sandbox's own"
	case isBelow(e.Path, "/proc") && (shows || isProcess(e.Path)):
		return "/proc is the sandbox's own"
	case isBelow(e.Path, "/dev/pts"), slices.Contains(devLinks, e.Path), shows && isDevice(e.Path):
		return "/dev is the sandbox's own"
	}
	return ""
}

// isDevice: beneath /dev, less /dev/shm, which is an ordinary directory.
func isDevice(p string) bool {
	return isBelow(p, "/dev") && p != "/dev/shm" && !isBelow(p, "/dev/shm")
}

// isProcess reports whether a path beneath /proc belongs to one process.
func isProcess(p string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(p, "/proc/"), "/")
	return first == "self" || first == "thread-self" || strings.Trim(first, "0123456789") == ""
}

func inexpressibleRefusal(e guard.Entry, why string) error {
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "cannot_express", Subject: e.Path, Rule: e.Rule.Text,
		Why: fmt.Sprintf("cannot make %q %s: %s", e.Path, e.Access, why),
		Fix: fmt.Sprintf("remove the rule (%s)", e.Rule.Source),
	}
}
