package guard

import (
	"runtime"
	"slices"
	"strings"

	"pinfold/policy"
)

// Link is a symbolic link that has to exist inside, because a granted path is
// reached through it.
type Link struct {
	Path   string
	Target string // as it stands in the link on the host
}

// systemDirs are the operating system, where read.base is system; every name
// in the root that starts with "lib" besides. macOS has more of them, and names
// in files of their own which tools xcrun(1) and sh(1) run.
var systemDirs = map[string][]string{ //nolint:gochecknoglobals // a table
	"linux": {"/usr", "/bin", "/sbin", "/etc", "/opt"},
	"darwin": {
		"/usr", "/bin", "/sbin", "/etc", "/opt", "/System", "/Library", "/Applications/Xcode.app",
		"/var/db/dyld", "/var/db/timezone", "/var/select", "/var/db/xcode_select_link", "/var/db/oah",
	},
}

// bindSystem binds the operating system for read.base system, and the home
// that looks empty.
func (g *gate) bindSystem() error {
	if g.base() != policy.BaseSystem {
		return nil
	}
	dirs := slices.Clone(systemDirs[runtime.GOOS])
	names, err := g.fs.names("/")
	if err != nil {
		return err
	}
	for _, n := range names {
		if strings.HasPrefix(n, "lib") {
			dirs = append(dirs, "/"+n)
		}
	}
	slices.Sort(dirs)
	for _, dir := range dirs {
		b, err := g.literal("read.base", dir, ClassBuiltin, verbAllow)
		if err != nil {
			return err
		}
		if !b.obj.missing() {
			g.shares = append(g.shares, b)
		}
	}
	return g.bindEmptyHome()
}

// bindEmptyHome shows the home as an empty directory.
func (g *gate) bindEmptyHome() error {
	home := g.home()
	if home == "" {
		return nil
	}
	b, err := g.literal("read.base", home, ClassBuiltin, verbDeny)
	if err != nil {
		return err
	}
	if b.obj.kind == Dir {
		b.look, b.shows = policy.DenyEmpty, true
		g.emptyHome = b
	}
	return nil
}

// links are the symbolic links on the way to what is granted, where their
// own directory doesn't show.
func (g *gate) links() []Link {
	var out []Link
	for _, b := range slices.Concat(g.shares, g.writes, g.allows, g.sockets, g.excepts) {
		if !g.lattice.at(b.obj.path).access.readable() {
			continue
		}
		for _, l := range b.obj.links {
			if g.lattice.at(parent(l.path)).access == hidden {
				out = append(out, Link{Path: l.path, Target: l.target})
			}
		}
	}
	slices.SortFunc(out, func(a, b Link) int { return comparePaths(a.Path, b.Path) })
	return slices.Compact(out)
}
