package guard

import (
	"fmt"
	"slices"
	"strings"
)

// settingsSource is what messages call the rules for settings.
const settingsSource = "pinfold's settings"

// Kept is what the next launch uses outside of the boundary: a file that the
// policy names, or a program. It is read-only inside, whatever is granted.
type Kept struct {
	Path string
	Name string // what messages call it
	Kind Kind   // what stands there: File or Dir
	// LeftOut reports what isn't used of a directory, by its path in it: only
	// there may a grant in it be writable. Nil is for nothing.
	LeftOut func(path string) (bool, error)
}

// bindPolicyFiles keeps the files that the policy came from as they are, and
// the directories and files that others come from: the next launch reads them.
// A link among them keeps what it leads to. No exception of guard_workspace
// lifts this.
func (g *gate) bindPolicyFiles() error {
	for _, k := range g.request.Kept {
		b, err := g.literal(k.Name, k.Path, ClassProtected, verbReadOnly)
		if err != nil {
			return err
		}
		b.usual, b.kept = k.Kind, &k
		g.readOnly = append(g.readOnly, b)
	}
	r := g.request
	files := slices.Concat(r.Settings, r.SettingsFiles, []string{r.PolicyFile})
	for _, s := range g.policy.Sources {
		files = append(files, s.File)
	}
	seen := map[string]bool{"": true}
	for i, f := range files {
		if seen[f] {
			continue
		}
		seen[f] = true
		b, err := g.literal("the policy's own file", f, ClassProtected, verbReadOnly)
		if err != nil {
			return err
		}
		switch {
		case i < len(r.Settings):
			b.usual, b.rule.Source = Dir, settingsSource
		case i < len(r.Settings)+len(r.SettingsFiles):
			b.usual, b.rule.Source = File, settingsSource
		}
		g.readOnly = append(g.readOnly, b)
	}
	return nil
}

// checkSettings refuses a launch that could make a file that isn't there, where
// settings, a link or a policy name one. A cover would be found by every other
// launch meanwhile, as a policy that is no policy.
func (g *gate) checkSettings() error {
	for _, b := range g.readOnly {
		if b.kept == nil && b.rule.Source != settingsSource || b.usual != File || !b.obj.missing() || g.lattice.above(b.obj.path).access != ReadWrite {
			continue
		}
		return refuse("settings_missing", b.given, two{b, g.lattice.above(b.obj.path).rule},
			fmt.Sprintf("cannot keep %q as it is: the next launch would read it, nothing stands at %q, and the command could make that", b.given, b.obj.path),
			"remove the link or the entry that names it, or make the file")
	}
	return g.checkKept()
}

// checkKept refuses a launch that may write what is in a directory that the
// next one uses whole.
func (g *gate) checkKept() error {
	for _, b := range g.readOnly {
		if b.kept == nil || b.kept.Kind != Dir {
			continue
		}
		for _, n := range g.lattice.sorted() {
			used, err := g.writableIn(n, b)
			if err != nil {
				return err
			}
			if used {
				return refuse("context_writable", b.given, two{b, n.grant},
					fmt.Sprintf("cannot keep %q as it is: the next launch would build an image of all that is in it, and the command may write %q", b.given, n.path),
					"put the Dockerfile and what it copies into a directory of their own, such as ./ci, which is read-only inside then")
			}
		}
	}
	return nil
}

// writableIn reports a write grant at or in a directory that is used whole.
func (g *gate) writableIn(n *node, b *bound) (bool, error) {
	dir := b.obj.path
	switch {
	case n.grant == nil || n.grant.verb != verbWrite:
		return false, nil
	case n.path == dir:
		return true, nil
	case !beneath(n.path, dir) || !g.lattice.writable(n.path):
		return false, nil
	case b.kept.LeftOut == nil:
		return true, nil
	}
	out, err := b.kept.LeftOut(strings.TrimPrefix(strings.TrimPrefix(n.path, dir), "/"))
	return !out, err
}
