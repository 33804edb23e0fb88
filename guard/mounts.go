package guard

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// mount is one line of the mount table.
type mount struct {
	id, parent int
	dev        uint64 // of the file system, major and minor
	root       string // what of the file system it shows
	point      string // where
	kind       string // file system type
	readOnly   bool   // by the mount's own flag
	layers     []string
	unplaced   bool // one of its layers can't be found
}

// inFS is a path within a file system: what a mount table can tell apart.
type inFS struct {
	dev  uint64
	path string
}

// mountTable answers what a path is within its file system, and where else
// that shows.
type mountTable struct {
	all      []mount
	children map[int][]int // by parent, in the order of the table
	root     int           // index of the mount at "/", -1 without one
	byDev    map[uint64][]int
	overlays []int
}

func newMountTable(list []mount) *mountTable {
	t := &mountTable{all: slices.Clone(list), children: map[int][]int{}, root: -1, byDev: map[uint64][]int{}}
	ids := map[int]bool{}
	for _, m := range list {
		ids[m.id] = true
	}
	for i, m := range list {
		if path.IsAbs(m.root) {
			t.byDev[m.dev] = append(t.byDev[m.dev], i)
		}
		if len(m.layers) > 0 {
			t.overlays = append(t.overlays, i)
		}
		if m.id != m.parent && ids[m.parent] {
			t.children[m.parent] = append(t.children[m.parent], i)
		} else if m.point == "/" {
			t.root = i
		}
	}
	t.dropOwnLayers()
	return t
}

// dropOwnLayers forgets layers that would lie in their own overlay, as those of
// a container's root seem to: they are named as the host saw them, so what has
// the name here is something else. Followed, each would lead to the next.
func (t *mountTable) dropOwnLayers() {
	for _, i := range t.overlays {
		m := &t.all[i]
		m.layers = slices.DeleteFunc(slices.Clone(m.layers), func(l string) bool { return path.IsAbs(l) && t.at(l) == i })
	}
}

// at is the index of the mount that a path lies on, -1 where the table has
// no root. It goes down as the kernel does: on each mount the one mounted on
// it soonest along the path, and of several at one place the last.
func (t *mountTable) at(p string) int {
	cur := t.root
	for cur >= 0 {
		next := -1
		for _, i := range t.children[t.all[cur].id] {
			m := t.all[i]
			if within(p, m.point) && (next < 0 || len(m.point) <= len(t.all[next].point)) {
				next = i
			}
		}
		if next < 0 {
			return cur
		}
		cur = next
	}
	return -1
}

// locate is a path within its file system.
func (t *mountTable) locate(p string) (inFS, bool) {
	i := t.at(p)
	if i < 0 {
		return inFS{}, false
	}
	m := t.all[i]
	return inFS{dev: m.dev, path: path.Join(m.root, rest(p, m.point))}, path.IsAbs(m.root)
}

// rest is what follows dir in p: "/x" of "/a/x" and "/a".
func rest(p, dir string) string {
	if dir == "/" {
		return p
	}
	return p[len(dir):]
}

// aliases are the other places that show what stands at p, or part of it, in
// the order of their paths; what lies beneath one of them is left out. Places
// that something is mounted over don't show.
func (t *mountTable) aliases(p string) []string {
	seen := map[string]bool{p: true}
	todo := []string{p}
	var out []string
	for len(todo) > 0 && len(seen) < maxAliases {
		next := todo[0]
		todo = todo[1:]
		for _, q := range t.shownAt(next) {
			if !seen[q] {
				seen[q] = true
				todo = append(todo, q)
				out = append(out, q)
			}
		}
	}
	slices.SortFunc(out, comparePaths)
	kept := []string{p}
	return slices.DeleteFunc(out, func(q string) bool {
		if slices.ContainsFunc(kept, func(dir string) bool { return within(q, dir) }) {
			return true
		}
		kept = append(kept, q)
		return false
	})
}

// maxAliases bounds the places that one path is followed to. A table with
// more ends in too many mounts anyway.
const maxAliases = 4 * maxMounts

// shownAt is one step of aliases.
func (t *mountTable) shownAt(p string) []string {
	var out []string
	here, ok := t.locate(p)
	if ok {
		out = t.shows(here)
	}
	for _, nested := range t.nested(p, here) {
		out = append(out, t.shows(nested)...)
	}
	return append(out, t.overlaid(p)...)
}

// samePlaces are a path and the other ones that show what stands at it, the
// whole of it, up to maxAliases. Unlike aliases it doesn't follow a mount of a
// part.
func (t *mountTable) samePlaces(p string) []string {
	out := []string{p}
	add := func(q string, i int) {
		if t.at(q) == i && !slices.Contains(out, q) {
			out = append(out, q)
		}
	}
	for n := 0; n < len(out) && len(out) < maxAliases; n++ {
		here, ok := t.locate(out[n])
		for _, i := range t.byDev[here.dev] {
			if q, shown := t.all[i].shown(here.path); ok && shown {
				add(q, i)
			}
		}
		for _, i := range t.overlays {
			t.sameInOverlay(out[n], i, add)
		}
	}
	return out
}

// sameInOverlay follows one overlay both ways, as overlaid does.
func (t *mountTable) sameInOverlay(p string, i int, add func(q string, i int)) {
	m := t.all[i]
	for _, layer := range m.layers {
		if t.at(p) == i {
			q := path.Join(layer, m.root, rest(p, m.point))
			add(q, t.at(q))
		}
		if within(p, layer) {
			if q, ok := m.shown(rest(p, layer)); ok {
				add(q, i)
			}
		}
	}
}

// shows are the places where the mounts of its file system show a path.
func (t *mountTable) shows(f inFS) []string {
	var out []string
	for _, i := range t.byDev[f.dev] {
		m := t.all[i]
		q := m.point
		switch {
		case within(f.path, m.root):
			q = path.Join(m.point, rest(f.path, m.root))
		case !beneath(m.root, f.path):
			continue
		}
		if t.at(q) == i {
			out = append(out, q)
		}
	}
	return out
}

// nested are the file systems mounted beneath a path, which lie in it as much
// as what is its own. One that the way to the path goes through as well is at
// home there: a bind of it beneath the path makes it no part of the path.
func (t *mountTable) nested(p string, here inFS) []inFS {
	var out []inFS
	for i, m := range t.all {
		if beneath(m.point, p) && path.IsAbs(m.root) && !isKernelFS(m.kind) && t.at(m.point) == i && !t.passes(p, here, m.dev) {
			out = append(out, inFS{dev: m.dev, path: m.root})
		}
	}
	return out
}

// passes reports whether the way to p goes through a file system.
func (t *mountTable) passes(p string, here inFS, dev uint64) bool {
	return here.dev == dev || slices.ContainsFunc(ancestors(p), func(dir string) bool {
		f, ok := t.locate(dir)
		return ok && f.dev == dev
	})
}

// overlaid follows overlay file systems both ways: from the merged tree to
// its layers, and from a layer to the merged tree.
func (t *mountTable) overlaid(p string) []string {
	var out []string
	for _, i := range t.overlays {
		m := t.all[i]
		for _, layer := range m.layers {
			switch {
			case t.at(p) == i:
				out = append(out, path.Join(layer, path.Join(m.root, rest(p, m.point))))
			case within(p, layer):
				if q, ok := m.shown(rest(p, layer)); ok && t.at(q) == i {
					out = append(out, q)
				}
			case beneath(layer, p) && t.at(m.point) == i:
				out = append(out, m.point)
			}
		}
	}
	return out
}

// shown is where a mount shows a path of its file system.
func (m mount) shown(p string) (string, bool) {
	p = path.Join("/", p)
	if !within(p, m.root) {
		return "", false
	}
	return path.Join(m.point, rest(p, m.root)), true
}

// kernelFS are file systems that show the kernel rather than files.
var kernelFS = []string{ //nolint:gochecknoglobals // a table
	"proc", "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "configfs", "bpf", "efivarfs", "pstore",
	"devpts", "devtmpfs", "mqueue", "binfmt_misc", "nsfs", "rpc_pipefs", "selinuxfs", "fusectl", "hugetlbfs", "autofs",
}

func isKernelFS(kind string) bool { return slices.Contains(kernelFS, kind) }

// overlayLayers are the directories of an overlay, from its options in the
// mount table: octal escapes as everywhere in it, and beneath those a "\"
// before a ":" of a name, kernel documentation filesystems/overlayfs. Relative
// ones are meant from the mounting process's directory: see placeLayers.
func overlayLayers(options string) []string {
	var out []string
	for o := range strings.SplitSeq(options, ",") {
		key, value, ok := strings.Cut(o, "=")
		if !ok {
			continue
		}
		value = unescapeOctal(value)
		switch key {
		case "upperdir", "workdir", "lowerdir+", "datadir+":
			out = append(out, layer(value))
		case "lowerdir":
			for _, l := range splitLayers(value) {
				out = append(out, layer(l))
			}
		}
	}
	return slices.DeleteFunc(out, func(s string) bool { return s == "." })
}

// splitLayers cuts at each colon that no backslash precedes.
func splitLayers(s string) []string {
	var out []string
	start := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case ':':
			out = append(out, s[start:i])
			start = i + 1
		}
	}
	return append(out, s[start:])
}

// layer takes the backslashes off a name.
func layer(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		out.WriteByte(s[i])
	}
	return path.Clean(out.String())
}

// unescapeOctal undoes the "\ooo" of a mount table.
func unescapeOctal(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		out.WriteByte(s[i])
	}
	return out.String()
}
