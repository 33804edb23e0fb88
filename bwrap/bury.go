package bwrap

import (
	"slices"

	"pinfold/guard"
	"pinfold/plan"
)

// bury mounts the directories whose names must hold beneath a write grant.
//
// A mount protects a file, not the name of the directory it lies in: with
// .git/hooks bound read-only "mv .git g" still works, and a new .git can be
// made. A mount on .git itself makes the kernel answer EBUSY to renaming or
// removing it, in every mount of the same directory in this namespace, but
// also EXDEV to renames and links across it. So the grant is bound, each
// directory is bound onto itself, and the caller binds the grant once more on
// top: the name stays pinned, and no lookup crosses the pin.
func (b *builder) bury(in input, root guard.Entry) {
	ghosts := ghostDirs(in, root)
	pins := pinsIn(in, root, ghosts)
	if len(pins) == 0 {
		return
	}
	b.add("--bind", root.Path, root.Path)
	b.ops++
	for _, dir := range ghosts {
		b.add("--dir", dir)
		b.ghosts = append(b.ghosts, Ghost{Path: dir, Dir: true})
	}
	for _, dir := range pins {
		flag := "--bind"
		if slices.Contains(ghosts, dir) {
			// bubblewrap looks for every source before it makes anything, and
			// does without this one then; by the time it mounts, it is there.
			flag = "--bind-try"
		}
		b.add(flag, dir, dir)
		b.ops++
		b.mounts = append(b.mounts, plan.Mount{Path: dir, Access: "pin", Kind: "bind", Rule: root.Rule})
	}
}

// pinsIn are the directories to pin in one write grant, parents first.
func pinsIn(in input, root guard.Entry, ghosts []string) []string {
	pins := slices.Clone(ghosts)
	for _, p := range in.Pins {
		if p.Root == root.Path {
			pins = append(pins, p.Path)
		}
	}
	slices.SortFunc(pins, comparePaths)
	return slices.Compact(pins)
}

// ghostDirs are the missing directories above a missing path that must not
// become makeable: they are made first, so that they too can be pinned.
func ghostDirs(in input, root guard.Entry) []string {
	var dirs []string
	for _, e := range in.Entries {
		if e.Kind != guard.Missing || nearestEntry(in, e.Path) != root.Path {
			continue
		}
		for _, dir := range between(root.Path, e.Path) {
			if !isPin(in, dir) {
				dirs = append(dirs, dir)
			}
		}
	}
	slices.SortFunc(dirs, comparePaths)
	return slices.Compact(dirs)
}

// nearestEntry is the path of the rule nearest above a path.
func nearestEntry(in input, p string) string {
	nearest := ""
	for _, e := range in.Entries {
		if isBelow(p, e.Path) && len(e.Path) > len(nearest) {
			nearest = e.Path
		}
	}
	return nearest
}

func isPin(in input, dir string) bool {
	return slices.ContainsFunc(in.Pins, func(p guard.Pin) bool { return p.Path == dir })
}
