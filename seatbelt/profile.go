package seatbelt

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"pinfold/guard"
	"pinfold/policy"
)

// Options are what the supervisor adds to a Grant.
type Options struct {
	// Proxy: the run may reach the supervisor's port on the host's loopback,
	// which [Text.At] fills in.
	Proxy bool
	// Tmp is the launch's own temporary directory, canonical.
	Tmp string
	// Listen are ports that a program inside may bind, on any address.
	Listen []uint16
	// HostPorts are ports of the host's loopback that may be reached.
	HostPorts []uint16
	// Inside is the program that is run first, inside the boundary.
	Inside string
	// Trustd lets programs ask the system's certificate daemon, which Go
	// programs need for TLS. It can fetch certificates by itself.
	Trustd bool
}

// Text is a profile and the parameters it is run with.
type Text struct {
	Profile string
	Params  []Param
}

// portToken stands for the proxy's port in a profile that is still to be run.
const portToken = `"localhost:{proxy}"`

// At is the profile with the supervisor's port, which is known when it runs.
func (t *Text) At(port uint16) string {
	return strings.ReplaceAll(t.Profile, portToken, fmt.Sprintf(`"localhost:%d"`, port))
}

// Map is the parameters as the evaluator takes them.
func (t *Text) Map() map[string]string {
	m := make(map[string]string, len(t.Params))
	for _, p := range t.Params {
		m[p.Name] = p.Value
	}
	return m
}

// The groups of operations. Two are in none, and so are refused everywhere:
// file-link and file-clone. Reports disagree about whether they are asked by
// the old name or by the new one. By the new one alone, a link in a write
// grant to a file outside would be a way to write it, and one clonefile(2) of
// a directory would copy everything denied that lies in it to where it can be
// read. Programs that can copy or rename instead do, as git does; other
// sandboxes for agents refuse both as well.
// Each rule that can meet another names whole
// groups, so that no rule is more specific by its operation than the other.
const (
	readOps  = "file-read* file-test-existence file-lock"
	execOps  = "process-exec* file-map-executable"
	writeOps = "file-write* file-mknod"
	allOps   = readOps + " " + execOps + " " + writeOps
)

// Profile writes the profile of a Grant.
func Profile(g *guard.Grant, o Options) (*Text, error) {
	return profile(viewOf(g), o)
}

func viewOf(g *guard.Grant) view {
	return view{
		tier: g.Tier(), base: g.Base(), entries: g.Entries(), pins: g.Pins(),
		watches: g.Watches(), sockets: g.Sockets(), unix: g.UnixSockets(),
	}
}

// view is what a profile needs of a Grant; tests make their own.
type view struct {
	tier    policy.Tier
	base    policy.ReadBase
	entries []guard.Entry
	pins    []guard.Pin
	watches []guard.Watch
	sockets []guard.Socket
	unix    policy.UnixSockets
}

func profile(v view, o Options) (*Text, error) {
	if v.tier == policy.TierContainer {
		return nil, &policy.Refusal{
			Reason: policy.Unavailable, Code: "tier_not_expressible", Subject: string(v.tier),
			Why: "cannot hold a container tier launch with a sandbox profile", Fix: `use "tier": "process"`,
		}
	}
	w := &writer{params: parameters{names: map[string]string{}}}
	w.line("(version 1)")
	w.line("(deny default)")
	w.fixed()
	w.base(v.base)
	w.otherNames()
	w.hostTemporary()
	for _, e := range v.entries {
		w.entry(e)
	}
	w.lookups(v)
	w.ownTemporary(o)
	w.pins(v.pins)
	w.roots(v, o)
	w.unmade(v)
	w.inside(o)
	w.devices()
	w.network(v, o)
	if w.err != nil {
		return nil, w.err
	}
	return &Text{Profile: w.b.String(), Params: w.params.list}, nil
}

// writer collects the text; the first error sticks.
type writer struct {
	b      strings.Builder
	params parameters
	err    error
}

func (w *writer) line(s string) {
	w.b.WriteString(s)
	w.b.WriteByte('\n')
}

func (w *writer) comment(format string, args ...any) {
	w.line("; " + comment(fmt.Sprintf(format, args...)))
}

// rule writes (verb ops (filter (param …))).
func (w *writer) rule(verb, ops, filter, p string) {
	ref, err := w.params.of(p)
	if err != nil && w.err == nil {
		w.err = err
	}
	w.line("(" + verb + " " + ops + "\n  (" + filter + " " + ref + "))")
}

// fixed writes what every process needs, from the table in services.go.
func (w *writer) fixed() {
	for _, s := range services {
		w.comment("%s", s.why)
		w.line(s.rule)
	}
}

func (w *writer) base(b policy.ReadBase) {
	w.comment("read.base: %s", orHost(b))
	roots := map[policy.ReadBase][]string{policy.BaseHost: {"/"}, policy.BaseSystem: systemRoots, policy.BaseNone: loaderRoots}
	for _, r := range roots[orHost(b)] {
		w.rule("allow", readOps+" "+execOps, "subpath", r)
	}
	if orHost(b) == policy.BaseHost {
		return
	}
	w.comment("the root directory itself is looked at by the loader and by getcwd")
	w.rule("allow", "file-read-data file-read-metadata", "literal", "/")
	w.comment("links on the way to /private, which realpath(3) looks at")
	for _, l := range []string{"/etc", "/tmp", "/var"} {
		w.rule("allow", "file-read-metadata", "literal", l)
	}
}

// otherNames denies the other ways to spell a path, and copies of everything.
// The kernel asks by the name that a firmlink gives (/Users, not
// /System/Volumes/Data/Users), so these rules should never be the ones that
// decide; if it asked by another one, they fail closed.
func (w *writer) otherNames() {
	w.comment("the data volume by its other name; files by number; backups, which copy what is denied")
	for _, d := range otherNames {
		w.rule("deny", allOps, "subpath", d)
	}
}

// inside lets the first program be run, which is pinfold itself.
func (w *writer) inside(o Options) {
	if o.Inside == "" {
		return
	}
	w.comment("pinfold, which proves the boundary and becomes the command")
	w.rule("allow", readOps+" "+execOps, "literal", o.Inside)
	for _, d := range above(o.Inside) {
		w.rule("allow", "file-read-metadata", "literal", d)
	}
}

func orHost(b policy.ReadBase) policy.ReadBase {
	if b == "" {
		return policy.BaseHost
	}
	return b
}

// hostTemporary denies the host's temporary directories, which on Linux the
// launch doesn't see at all.
func (w *writer) hostTemporary() {
	w.comment("the host's temporary directories; TMPDIR is the launch's own")
	for _, d := range hostTemporary {
		w.rule("deny", allOps, "subpath", d)
	}
}

// ownTemporary comes after the entries, since the directory lies in the
// state directory, which they deny.
func (w *writer) ownTemporary(o Options) {
	if o.Tmp == "" {
		return
	}
	w.comment("the launch's own temporary directory")
	w.rule("allow", allOps, "subpath", o.Tmp)
	for _, d := range above(o.Tmp) {
		w.rule("allow", "file-read-metadata", "literal", d)
	}
}

// lookups lets the directories above a granted path be looked up where
// nothing else does, which realpath(3) and getcwd(3) need; they can't be
// listed by it.
func (w *writer) lookups(v view) {
	var dirs []string
	for _, e := range v.entries {
		if e.Access >= guard.ReadOnly {
			dirs = append(dirs, above(e.Path)...)
		}
	}
	slices.Sort(dirs)
	w.comment("directories on the way to what is granted")
	for _, d := range slices.Compact(dirs) {
		if !v.readable(d) {
			w.rule("allow", "file-read-metadata", "literal", d)
		}
	}
}

// above lists the directories above p, without the root.
func above(p string) []string {
	var out []string
	for d := path.Dir(p); d != "/" && d != "."; d = path.Dir(d) {
		out = append(out, d)
	}
	return out
}

// readable reports what the nearest entry, else the base, says of p.
func (v view) readable(p string) bool {
	ok := orHost(v.base) == policy.BaseHost
	for _, e := range v.entries {
		if e.Path == p || strings.HasPrefix(p, strings.TrimSuffix(e.Path, "/")+"/") {
			ok = e.Access >= guard.ReadOnly
		}
	}
	return ok
}

// entry writes one rule of the Grant. A denied or read-only path is a
// subpath whatever stands there now, so that nothing can be made beneath it.
func (w *writer) entry(e guard.Entry) {
	w.comment("%s %s: %s (%s, %s)", e.Access, e.Path, e.Rule.Text, e.Rule.Class, e.Rule.Source)
	switch e.Access {
	case guard.ReadWrite:
		w.rule("allow", allOps, filterFor(e.Kind), e.Path)
	case guard.ReadOnly:
		w.rule("allow", readOps+" "+execOps, filterFor(e.Kind), e.Path)
		w.rule("deny", writeOps, "subpath", e.Path)
	default:
		w.rule("deny", allOps, "subpath", e.Path)
	}
}

func filterFor(k guard.Kind) string {
	if k == guard.Dir {
		return "subpath"
	}
	return "literal"
}

// roots keeps the names of the write grants themselves. One that was moved
// into another grant would leave the rules about what lies in it behind, to be
// moved back with a hook in it.
func (w *writer) roots(v view, o Options) {
	var dirs []string
	for _, e := range v.entries {
		if e.Access == guard.ReadWrite && e.Kind == guard.Dir {
			dirs = append(dirs, e.Path)
		}
	}
	if o.Tmp != "" {
		dirs = append(dirs, o.Tmp)
	}
	if len(dirs) > 0 {
		w.comment("write grants keep their names")
	}
	for _, d := range dirs {
		w.rule("deny", "file-write-unlink", "literal", d)
	}
}

// pins keeps the names above a covered path: rename(2) and rmdir(2) ask for
// file-write-unlink on the old name. It comes after every allow.
func (w *writer) pins(pins []guard.Pin) {
	for _, p := range pins {
		w.comment("%s keeps its name: something beneath it is covered", p.Path)
		w.rule("deny", "file-write-unlink", "literal", p.Path)
	}
}
