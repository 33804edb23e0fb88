package guard

import (
	"fmt"
	"slices"
)

// settingsSource is what messages call the rules for settings.
const settingsSource = "pinfold's settings"

// bindPolicyFiles keeps the files that the policy came from as they are, and
// the directories and files that others come from: the next launch reads them.
// A link among them keeps what it leads to. No exception of guard_workspace
// lifts this.
func (g *gate) bindPolicyFiles() error {
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

// checkSettings refuses a launch that could make a file of settings that isn't
// there, where a link or a policy names one. A cover would be found by every
// other launch meanwhile, as a policy that is no policy.
func (g *gate) checkSettings() error {
	for _, b := range g.readOnly {
		if b.rule.Source != settingsSource || b.usual != File || !b.obj.missing() || g.lattice.above(b.obj.path).access != ReadWrite {
			continue
		}
		return refuse("settings_missing", b.given, two{b, g.lattice.above(b.obj.path).rule},
			fmt.Sprintf("cannot keep %q as it is: the next launch would read it, nothing stands at %q, and the command could make that", b.given, b.obj.path),
			"remove the link or the entry that names it, or make the file")
	}
	return nil
}
