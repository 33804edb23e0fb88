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
	// Root: the run is root's.
	Root bool
	// Trustd lets programs ask the system's certificate daemon, which Go
	// programs need for TLS. It can fetch certificates by itself.
	Trustd bool
}

// Text is a profile and the parameters it is run with.
type Text struct {
	Profile string
	Params  []Param
}

// What is known only when a run starts stands in a profile as a token: the
// proxy's port, and what the kernel adds to the log's entry of a refusal.
const (
	portToken = `"localhost:{proxy}"`
	tagToken  = `(with message "{tag}")`
)

// At is the profile of one run: the supervisor's port, and the run's tag in
// the log, of letters, digits and dashes.
func (t *Text) At(port uint16, tag string) string {
	return strings.NewReplacer(
		portToken, fmt.Sprintf(`"localhost:%d"`, port), tagToken, "(with message "+quote(tag)+")",
	).Replace(t.Profile)
}

// Map is the parameters as the evaluator takes them.
func (t *Text) Map() map[string]string {
	m := make(map[string]string, len(t.Params))
	for _, p := range t.Params {
		m[p.Name] = p.Value
	}
	return m
}

// outsideDefault are denied by name, since (deny default) is said not to
// reach them. By process-info-pidinfo a program would read the environment of
// every other (KERN_PROCARGS2). file-link and file-clone are allowed nowhere:
// reports disagree about whether they are asked by the old name or by the new
// one. By the new one alone, a link in a write grant to a file outside would
// be a way to write it, and one clonefile(2) of a directory would copy
// everything denied that lies in it to where it can be read. Programs that can
// copy or rename instead do, as git does; other sandboxes for agents refuse
// both as well.
const outsideDefault = "process-info* nvram* iokit-get-properties file-map-executable file-link file-clone fs-snapshot* ipc-sysv*"

// sysvCalls are System V's shared memory, semaphores and message queues, which
// are the machine's: another program's can be attached by its number, and what
// is left behind stays until the next boot.
const sysvCalls = "SYS_shmget SYS_shmat SYS_shmctl SYS_shmdt SYS_shmsys SYS_semget SYS_semop SYS_semctl SYS_semsys " +
	"SYS_msgget SYS_msgsnd SYS_msgrcv SYS_msgctl SYS_msgsys SYS_msgsnd_nocancel SYS_msgrcv_nocancel"

// The groups of operations. Each rule that can meet another names whole
// groups, so that no rule is more specific by its operation than the other.
const (
	lookOps  = "file-read-metadata file-test-existence"
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
		watches: g.Watches(), absent: g.Absent(), links: g.Links(), sockets: g.Sockets(), unix: g.UnixSockets(),
	}
}

// view is what a profile needs of a Grant; tests make their own.
type view struct {
	tier    policy.Tier
	base    policy.ReadBase
	entries []guard.Entry
	pins    []guard.Pin
	watches []guard.Watch
	absent  []guard.Entry
	links   []guard.Link
	sockets []guard.Socket
	unix    policy.UnixSockets
	byPath  map[string]guard.Entry
}

// whole is the view with what is always closed among its entries, parents
// before children, and with all of them by their paths.
func (v view) whole() view {
	v.byPath = make(map[string]guard.Entry, len(v.entries))
	for _, e := range v.entries {
		v.byPath[e.Path] = e
	}
	v.entries = slices.Clone(v.entries)
	for _, e := range closed() {
		if _, ruled := v.byPath[e.Path]; !ruled {
			v.byPath[e.Path] = e
			v.entries = append(v.entries, e)
		}
	}
	slices.SortStableFunc(v.entries, func(a, b guard.Entry) int { return strings.Compare(a.Path, b.Path) })
	return v
}

func profile(v view, o Options) (*Text, error) {
	if v.tier == policy.TierContainer {
		return nil, &policy.Refusal{
			Reason: policy.Unavailable, Code: "tier_not_expressible", Subject: string(v.tier),
			Why: "cannot hold a container tier launch with a sandbox profile", Fix: `use "tier": "process"`,
		}
	}
	v = v.whole()
	w := &writer{params: parameters{names: map[string]string{}}}
	w.line("(version 1)")
	w.line("(deny default " + tagToken + ")")
	w.comment("what (deny default) may not reach")
	w.line("(deny " + outsideDefault + " " + tagToken + ")")
	w.line("(if (defined? 'darwin-notification-post) (deny darwin-notification-post " + tagToken + "))")
	w.comment("System V's shared memory, semaphores and queues, which no rule about ipc-sysv stops by public reports")
	w.line("(deny syscall-unix\n  (syscall-number " + sysvCalls + ") " + tagToken + ")")
	w.fixed(o)
	w.base(v.base)
	for _, e := range v.entries {
		w.entry(e)
	}
	w.absent(v.absent)
	w.lookups(v)
	w.links(v.links)
	w.ownTemporary(o)
	w.kept(v, o)
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

// rule writes (verb ops (filter (param …))), and the path for people.
func (w *writer) rule(verb, ops, filter, p string) {
	ref, err := w.params.of(p)
	if err != nil && w.err == nil {
		w.err = err
	}
	w.line("(" + verb + " " + ops + "\n  (" + filter + " " + ref + ")" + tagOf(verb) + ") ; " + comment(p))
}

// tagOf makes a refusal by a rule known in the log.
func tagOf(verb string) string {
	if verb == "deny" {
		return " " + tagToken
	}
	return ""
}

// fixed writes what every process needs, from the table in services.go.
func (w *writer) fixed(o Options) {
	for _, s := range services {
		if s.ordinary && o.Root {
			continue
		}
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
	w.rule("allow", "file-read-data "+lookOps, "literal", "/")
	w.comment("links on the way to /private, which realpath(3) looks at")
	for _, l := range []string{"/etc", "/tmp", "/var"} {
		w.rule("allow", lookOps, "literal", l)
	}
	w.comment("/bin/sh looks here for which shell it is")
	w.rule("allow", readOps, "literal", "/private/var/select/sh")
}

// closed are denied whatever the base, and whatever a rule says of a directory
// above them; a rule about one itself, or beneath it, holds.
//
//   - Other ways to spell a path, and copies of everything. The kernel asks by
//     the name that a firmlink gives (/Users, not /System/Volumes/Data/Users),
//     so these rules should never be the ones that decide; if it asked by
//     another one, they fail closed.
//   - The host's temporary directories, which on Linux the launch doesn't see.
func closed() []guard.Entry {
	var out []guard.Entry
	for _, list := range []struct {
		paths []string
		why   string
	}{
		{otherNames, "another name of what is denied, or a copy"}, {hostTemporary, "TMPDIR is the launch's own"},
	} {
		for _, p := range list.paths {
			r := guard.Rule{Class: guard.ClassBuiltin, Text: p, Source: list.why}
			out = append(out, guard.Entry{Path: p, Access: guard.Deny, Kind: guard.Dir, Rule: r})
		}
	}
	return out
}

// inside lets the first program be run, which is pinfold itself.
func (w *writer) inside(o Options) {
	if o.Inside == "" {
		return
	}
	w.comment("pinfold, which proves the boundary and becomes the command")
	w.rule("allow", readOps+" "+execOps, "literal", o.Inside)
	for _, d := range above(o.Inside) {
		w.rule("allow", lookOps, "literal", d)
	}
}

func orHost(b policy.ReadBase) policy.ReadBase {
	if b == "" {
		return policy.BaseHost
	}
	return b
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
		w.rule("allow", lookOps, "literal", d)
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
			w.rule("allow", lookOps, "literal", d)
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

// links lets the links on the way to what is granted be read, where the
// directories that they lie in don't show: realpath(3) looks at each.
func (w *writer) links(links []guard.Link) {
	if len(links) == 0 {
		return
	}
	w.comment("links on the way to what is granted")
	for _, l := range links {
		w.rule("allow", readOps, "literal", l.Path)
		for _, d := range above(l.Path) {
			w.rule("allow", lookOps, "literal", d)
		}
	}
}

// readable reports what the nearest entry, else the base, says of p.
func (v view) readable(p string) bool {
	if e, found := v.nearest(p, func(guard.Entry) bool { return true }); found {
		return e.Access >= guard.ReadOnly
	}
	return orHost(v.base) == policy.BaseHost
}

// nearest is the entry at p or next above it, of those that are asked for.
func (v view) nearest(p string, asked func(guard.Entry) bool) (guard.Entry, bool) {
	for ; ; p = path.Dir(p) {
		if e, found := v.byPath[p]; found && asked(e) {
			return e, true
		}
		if p == "/" || p == "." {
			return guard.Entry{}, false
		}
	}
}

// within reports whether p is dir, or lies beneath it.
func within(dir, p string) bool {
	return p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
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

// absent denies what isn't there and nothing inside could make: the host may
// make it while the launch runs.
func (w *writer) absent(list []guard.Entry) {
	for _, e := range list {
		w.comment("%s, should it come to be: %s (%s, %s)", e.Path, e.Rule.Text, e.Rule.Class, e.Rule.Source)
		w.rule("deny", allOps, "subpath", e.Path)
	}
}

func filterFor(k guard.Kind) string {
	if k == guard.Dir {
		return "subpath"
	}
	return "literal"
}
