package guard

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"pinfold/policy"
)

// guard keeps names in a directory read-only where they could be written,
// unless they are excepted. shown is how messages call the directory ("~"),
// "" for the workspace.
func (g *gate) guard(dir, shown string, names []string) error {
	for _, name := range names {
		if err := g.guardAt(join(dir, name), path.Join(shown, name), usualOf(name)); err != nil {
			return err
		}
	}
	return nil
}

// guardAt guards one path, which messages call text. A path that a write grant
// lies in is guarded too, which refuses that grant.
func (g *gate) guardAt(p, text string, usual Kind) error {
	if g.excepted(text) {
		return nil
	}
	b, err := g.bindGuarded(p, text, usual)
	if err == nil && !g.lattice.writable(b.obj.path) && g.reaimable(b) == nil && !g.grantIn(b.obj.path) {
		g.guarded = g.guarded[:len(g.guarded)-1]
	}
	return err
}

// bindGuarded is for a path that is to be read-only, with what the links in it
// lead to.
func (g *gate) bindGuarded(p, text string, usual Kind) (*bound, error) {
	b, err := g.bindOne(p, text, usual)
	if err == nil {
		g.follow(b)
	}
	return b, err
}

// bindOne is for a path that is to be read-only.
func (g *gate) bindOne(p, text string, usual Kind) (*bound, error) {
	b := &bound{verb: verbReadOnly, usual: usual, rule: Rule{Class: ClassGuarded, Text: text, Source: "guard_workspace"}}
	err := g.bind(b, p)
	if err == nil {
		g.guarded = append(g.guarded, b)
	}
	return b, err
}

// excepted reports whether guard_workspace.except lists a name or a directory
// above it, wherever in the grants that stands: ".git/hooks" is meant for
// nested repositories too.
func (g *gate) excepted(name string) bool {
	return slices.ContainsFunc(g.policy.GuardWorkspace.Except, func(e string) bool {
		return strings.Contains("/"+name+"/", path.Clean("/"+e)+"/")
	})
}

// usualOf guesses what stands under a guarded name: names of files mostly
// have a suffix.
func usualOf(name string) Kind {
	switch base := path.Base(name); {
	case slices.Contains([]string{"hooks", "info", "commands", "agents", "plugins", "modules", ".vscode", ".idea", ".husky"}, base):
		return Dir
	case path.Ext(base) != "" && path.Ext(base) != base, base == "config", base == "commondir", base == "gitdir":
		return File
	}
	return Missing
}

// guardHomes guards what every later session on the host runs, be it granted
// with the home, by itself, or as what a link in the home leads to (a
// repository of dotfiles). A home that was made for the launch (--home) is the
// command's own, and so is a directory elsewhere that an agent's variable
// names.
func (g *gate) guardHomes(names policy.GuardedNames) error {
	for _, home := range g.hostHomes() {
		if err := g.guard(home, "~", names.Home); err != nil {
			return err
		}
		for _, a := range names.Agents {
			if err := g.guard(path.Join(home, a.Dir), path.Join("~", a.Dir), a.Names); err != nil {
				return err
			}
		}
	}
	return nil
}

// hostHomes are the homes that sessions on the host use.
func (g *gate) hostHomes() []string {
	env, _ := lookupEnv(g.request.Env, "HOME")
	var out []string
	for _, h := range []string{env, g.homeOf(g.request.UID)} {
		if path.IsAbs(h) && path.Clean(h) != "/" && !contains(out, path.Clean(h)) {
			out = append(out, path.Clean(h))
		}
	}
	return out
}

// checkGuardedWrites refuses a write grant that names a guarded path: which of
// the two was meant can't be told.
func (g *gate) checkGuardedWrites() error {
	for _, b := range g.guarded {
		for _, w := range g.writes {
			if w.rule.Class == ClassPolicy && within(w.obj.path, b.obj.path) && !g.isReopened(w.obj.path, b.obj.path) {
				return refuse("guarded_write", w.given, two{w, b},
					fmt.Sprintf("cannot grant writing to %q: host programs run what stands at %q", w.given, b.obj.path),
					fmt.Sprintf(`set %s if that is meant, or leave the entry out`, b.rule.Lift()))
			}
		}
	}
	return nil
}
