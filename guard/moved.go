package guard

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"syscall"

	"pinfold/policy"
)

// means reports whether a variable names something that can be denied. One
// that names the home, or what the launch is about, is a mistake that must not
// take the launch along; what lies in the run directory is the launch's own.
func (g *gate) means(d policy.DefaultDeny, b *bound) bool {
	switch p := b.obj.path; {
	case g.places.run != nil && within(p, g.places.run.obj.path):
		return false
	case g.wide(p, b.obj.kind):
		g.note(fmt.Sprintf("$%s names %q: nothing is denied for it, it holds more than credentials", d.Variable, d.Path))
		return false
	case b.obj.kind == Dir && !d.Dir:
		g.note(fmt.Sprintf("$%s names %q: nothing is denied for it, a directory is no such file", d.Variable, d.Path))
		return false
	}
	return true
}

// wide reports whether a path holds what no launch can do without: a directory
// in the root, a home, or a path of the launch itself.
func (g *gate) wide(p string, k Kind) bool {
	if k == Dir && parent(p) == "/" {
		return true
	}
	for _, home := range g.homes() {
		if o, err := g.fs.lookup(home); err == nil {
			o.release()
			if within(o.path, p) {
				return true
			}
		}
	}
	for _, b := range []*bound{g.places.workspace, g.places.run, g.places.home} {
		if b != nil && within(b.obj.path, p) {
			return true
		}
	}
	return false
}

// maxLinksIn bounds the links of one directory that are followed.
const maxLinksIn = 64

// stores hold what package managers built from what is public, read-only, and
// with several names for one file.
func stores() []string { return []string{"/nix/store", "/gnu/store"} }

// bindLinksIn denies what the links in a denied directory lead to under its own
// name too: dotfile managers keep keys in a repository, and link them.
func (g *gate) bindLinksIn(dir *bound) error {
	if dir.obj.kind != Dir {
		return nil
	}
	list, _, err := g.firstLinks(dir, dir.obj.path, "denied")
	if err != nil {
		return err
	}
	for _, name := range list {
		if err := g.bindLinkIn(dir, name); err != nil {
			return err
		}
	}
	return nil
}

// firstLinks are the links in a directory that are followed, and the
// directories in it; what they lead to becomes what the last word says.
func (g *gate) firstLinks(dir *bound, p, becomes string) (list, dirs []string, err error) {
	list, dirs, err = g.fs.linksIn(p)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil, nil // the command, the same user, can't list it either
	}
	if len(list) > maxLinksIn {
		g.note(fmt.Sprintf("%s: %q holds more than %d symbolic links; what the others lead to isn't %s", dir, p, maxLinksIn, becomes))
		list = list[:maxLinksIn]
	}
	return list, dirs, err
}

func (g *gate) bindLinkIn(dir *bound, name string) error {
	o, err := g.fs.lookup(join(dir.obj.path, name))
	if err != nil {
		return nil //nolint:nilerr // it leads nowhere: lock files of programs are such links
	}
	o.release()
	if o.missing() || within(o.path, dir.obj.path) || g.public(&o) {
		return nil
	}
	if g.wide(o.path, o.kind) {
		g.note(fmt.Sprintf("%s: %q in it leads to %q, which isn't denied: it holds more than credentials", dir, name, o.path))
		return nil
	}
	b := &bound{verb: verbDeny, look: policy.DenyEmpty, rule: dir.rule}
	b.rule.Text = path.Join(dir.rule.Text, name)
	if err := g.bind(b, path.Join(dir.given, name)); err != nil {
		return err
	}
	g.allDefaults = append(g.allDefaults, b)
	if !g.lifted(b) {
		g.defaults = append(g.defaults, b)
	}
	return nil
}

// public reports whether a file is another user's that anybody may read, or
// lies in a store of packages.
func (g *gate) public(o *object) bool {
	for _, s := range stores() {
		if strings.HasPrefix(o.path, s+"/") {
			return true
		}
	}
	return o.kind == Other || o.uid != uint32(g.request.UID) && o.mode&0o004 != 0
}
