package guard

import (
	"path"
	"slices"

	"pinfold/policy"
)

// guardMoved guards what the caller's variables say of the host's sessions: the
// names of ~/.config where $XDG_CONFIG_HOME has them, and the start-up files
// that variables name.
func (g *gate) guardMoved(names policy.GuardedNames) error {
	if err := g.guardConfigHome(names); err != nil {
		return err
	}
	for _, v := range names.Variables {
		for _, p := range v.Paths(g.request.Variable(v.Variable), g.request.CallerDir) {
			usual := File
			if len(v.Names) > 0 {
				usual = usualOf(p)
			}
			if err := g.guardStart(p, usual); err != nil {
				return err
			}
		}
	}
	return nil
}

// guardConfigHome guards the names of ~/.config elsewhere. An exception for one
// is meant for where it is.
func (g *gate) guardConfigHome(names policy.GuardedNames) error {
	list := slices.Clone(names.Home)
	for _, a := range names.Agents {
		for _, n := range a.Names {
			list = append(list, path.Join(a.Dir, n))
		}
	}
	dirs := policy.StartVariable{}.Paths(g.request.Variable("XDG_CONFIG_HOME"), "")
	for _, dir := range dirs {
		if slices.ContainsFunc(g.hostHomes(), func(home string) bool { return dir == join(home, ".config") }) {
			continue // they are guarded there
		}
		for _, name := range list {
			in, ok := policy.ConfigHome(name)
			if !ok || g.excepted(path.Join("~", name)) {
				continue
			}
			if err := g.guardStart(join(dir, in), usualOf(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// guardStart guards a path of a variable. What can't be looked up, no program
// reads either, and what isn't the kind of thing that the variable is for is a
// mistake, as is $ENV that names no file; a directory of the launch's own is the
// command's.
func (g *gate) guardStart(p string, usual Kind) error {
	at, kind, err := g.standsAt(p)
	if err != nil || usual == File && kind == Dir || g.launchOwn(at) {
		return nil //nolint:nilerr // see above
	}
	dir, _, err := g.standsAt(parent(p))
	if err != nil {
		return err
	}
	named := join(dir, path.Base(p))
	text := g.homely(named)
	if text == named {
		text = g.shown(named)
	}
	return g.guardAt(p, text, usual)
}
