package guard

import (
	"fmt"
	"path"
	"slices"
)

// A link in a guarded directory can't be pointed elsewhere, but what it leads
// to may lie in a write grant: a hook that is a link to a script of the
// checkout is run as that script.

// follow has the links in a guarded directory followed once all guarded names
// are in place, be the directory itself in a write grant or not.
func (g *gate) follow(b *bound) {
	same := func(o *bound) bool { return o.obj.path == b.obj.path }
	if b.obj.kind == Dir && !slices.ContainsFunc(g.followed, same) {
		g.followed = append(g.followed, b)
	}
}

// followAt is for a guarded path that can't be written from inside.
func (g *gate) followAt(p, text string) error {
	o, err := g.fs.lookup(p)
	if err != nil {
		return err
	}
	o.release()
	g.follow(&bound{rule: Rule{Class: ClassGuarded, Text: text, Source: "guard_workspace"}, given: path.Clean(p), obj: o})
	return nil
}

// guardLinks guards what the links in guarded directories lead to.
func (g *gate) guardLinks() error {
	for _, dir := range g.followed {
		if err := g.guardLinksIn(dir); err != nil {
			return err
		}
	}
	return nil
}

// maxDirsIn bounds the directories that are searched for one guarded one: it
// may hold what a package manager brought, with repositories and modules.
const maxDirsIn = 64

// guardLinksIn goes through a guarded directory and those in it, what is near
// the top first: units of systemd and functions of a shell lie deeper.
func (g *gate) guardLinksIn(top *bound) error {
	queue := []string{""}
	for n := 0; len(queue) > 0; n++ {
		if n == maxDirsIn {
			g.note(fmt.Sprintf("%s: it holds more than %d directories; what links in the others lead to isn't kept read-only", top, n))
			return nil
		}
		at := queue[0]
		queue = queue[1:]
		list, dirs, err := g.firstLinks(top, path.Join(top.obj.path, at), "kept read-only")
		if err != nil {
			return err
		}
		for _, name := range list {
			if err := g.guardLink(top, path.Join(at, name)); err != nil {
				return err
			}
		}
		for _, d := range dirs {
			if d != ".git" && d != "node_modules" {
				queue = append(queue, path.Join(at, d))
			}
		}
	}
	return nil
}

func (g *gate) guardLink(dir *bound, name string) error {
	p, text := path.Join(dir.given, name), path.Join(dir.rule.Text, name)
	o, err := g.fs.lookup(p)
	if err != nil {
		return nil //nolint:nilerr // what can't be looked up, no program reads either
	}
	o.release()
	inside := g.lattice.writable(o.path) || g.reaimable(&bound{obj: o}) != nil
	if !inside || g.excepted(text) || g.excepted(g.shown(o.path)) {
		return nil
	}
	if why := g.leftWritable(dir, &o); why != "" {
		g.note(fmt.Sprintf("%s: %q in it leads to %q, which isn't kept read-only: %s", dir, name, o.path, why))
		return nil
	}
	b, err := g.bindOne(p, text, o.kind)
	if err != nil {
		return err
	}
	g.place(b)
	return nil
}

// leftWritable says why something is not guarded that a link leads to: what
// isn't there may be what the launch is to make, and a directory may hold all
// that it is about.
func (g *gate) leftWritable(dir *bound, o *object) string {
	granted := func(w *bound) bool { return within(w.obj.path, o.path) }
	switch {
	case o.missing():
		return "nothing stands there yet"
	case o.kind == Dir && (within(dir.obj.path, o.path) || slices.ContainsFunc(g.writes, granted)):
		return "it holds what is granted"
	}
	return ""
}
