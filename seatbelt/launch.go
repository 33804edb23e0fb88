package seatbelt

import (
	"slices"
	"strings"

	"pinfold/guard"
	"pinfold/plan"
	"pinfold/policy"
)

// SandboxExec is where macOS has the program that applies a profile. It is
// named in full: one found on PATH could be anybody's.
const SandboxExec = "/usr/bin/sandbox-exec"

// Machine is what a translation needs to know of the machine it is for.
type Machine struct {
	Tool plan.Tool // sandbox-exec, and the version of macOS
}

// Fresh is a directory made for one launch: the Plan has Name where the
// arguments have Path.
type Fresh struct {
	Name string // "{tmp}"
	Path string
}

// LaunchOptions are the caller's choices that aren't in the Grant.
type LaunchOptions struct {
	// Umask of the caller, passed on to the command.
	Umask int
	// Tmp is a fresh, canonical directory for this launch alone. It becomes
	// TMPDIR where the Grant doesn't keep the caller's.
	Tmp string
	// Suffix is the name of Tmp in the user's temporary directory, where it
	// lies there: confstr(3) then names it too, by which mktemp(1), Java and
	// Foundation go instead of by TMPDIR.
	Suffix string
	// Inside is the executable that proves the boundary from inside and then
	// becomes the command: pinfold itself, which calls [Inside] first thing.
	Inside string
	// Helper is the executable that "pinfold connect" is called by, for ssh;
	// "" leaves ssh as it is.
	Helper string
	Trustd bool
	// Root: the run is root's, who could change the machine's network by a
	// service that others only read from, so that it isn't reachable.
	Root  bool
	Fresh []Fresh
}

// Launch is a Grant translated: complete, and pure data.
type Launch struct {
	Plan *plan.Plan
	Text *Text
	// Inside is run by sandbox-exec, with [InsideArg] and no other argument.
	Inside string
	// Proxy: some host is allowed, so there is a listener.
	Proxy bool

	setup  Setup
	env    []string // without the proxy's variables
	helper string
	limits policy.Limits
}

// Translate turns a Grant into a Launch for a machine. It is pure: the same
// arguments give the same Launch. What this tier can't enforce is refused.
func Translate(g *guard.Grant, m Machine, o LaunchOptions) (*Launch, error) {
	return translate(inputOf(g), m, o)
}

// input is what a translation reads of a Grant; tests make their own.
type input struct {
	view
	network policy.Network
	limits  policy.Limits
	require []string
	argv    []string
	dir     string
	env     []string
	held    []string // withheld variables
	paths   guard.Paths
	owner   guard.Owner
	notes   []string
	given   map[string]policy.Position
}

func inputOf(g *guard.Grant) input {
	in := input{
		view: viewOf(g), network: g.Network(), limits: g.Limits(), require: g.Require(), argv: g.Argv(), dir: g.Dir(),
		env: g.Env(), held: g.Withheld(), paths: g.Paths(), owner: g.Owner(), notes: g.Notes(),
	}
	if p := g.Policy(); p != nil {
		in.given = p.Given
	}
	return in
}

func translate(in input, m Machine, o LaunchOptions) (*Launch, error) {
	if err := refuseInexpressible(in); err != nil {
		return nil, err
	}
	tmp := in.ownTmp(o)
	if tmp != "" {
		in.paths.Tmp = tmp
	}
	l := &Launch{Inside: o.Inside, Proxy: len(in.network.Allow) > 0, helper: o.Helper, limits: in.limits}
	var err error
	if l.Text, err = profile(in.view, profileOptions(in, o, tmp)); err != nil {
		return nil, err
	}
	l.env = commandEnv(in.env, in.paths.Tmp)
	if tmp != "" && o.Suffix != "" {
		l.env = append(l.env, suffixName+"="+o.Suffix)
	}
	l.setup = Setup{Argv: in.argv, Dir: in.dir, Umask: o.Umask, Files: in.limits.Files, FileSize: in.limits.FileSize}
	l.Plan = planOf(in, m, o, l)
	return l, nil
}

// ownTmp is the launch's own temporary directory, "" where the caller's lies
// in a write grant and is kept.
func (in input) ownTmp(o LaunchOptions) string {
	if in.paths.Tmp != "" && in.paths.Tmp != privateTmp {
		return ""
	}
	return o.Tmp
}

// privateTmp is what the guard calls the launch's own temporary directory,
// which on Linux is mounted there.
const privateTmp = "/tmp"

func profileOptions(in input, o LaunchOptions, tmp string) Options {
	return Options{
		Proxy: len(in.network.Allow) > 0, Tmp: tmp, Inside: o.Inside, Trustd: o.Trustd, Root: o.Root,
		HostPorts: in.network.HostPorts, Listen: exposed(in.network.Expose),
	}
}

func exposed(list []policy.Expose) []uint16 {
	var ports []uint16
	for _, e := range list {
		ports = append(ports, e.Inside)
	}
	return ports
}

// fresh replaces directories made for one launch by their names. A name can't
// be mistaken for a path: it doesn't begin with a slash.
type fresh []Fresh

func (f fresh) name(p string) string {
	for _, d := range f {
		if p == d.Path || strings.HasPrefix(p, d.Path+"/") {
			return d.Name + strings.TrimPrefix(p, d.Path)
		}
	}
	return p
}

// text names them wherever they stand.
func (f fresh) text(s string) string {
	for _, d := range f {
		s = strings.ReplaceAll(s, d.Path, d.Name)
	}
	return s
}

func (f fresh) paths(p guard.Paths) guard.Paths {
	for _, s := range []*string{&p.Workspace, &p.Run, &p.Toolbelt, &p.Home, &p.Record, &p.State, &p.Tmp} {
		*s = f.name(*s)
	}
	return p
}

// suffixName is the variable by which libSystem's confstr(3) answers with a
// directory in the user's temporary directory, as WebKit's processes have it.
const suffixName = "DIRHELPER_USER_DIR_SUFFIX"

// commandEnv is the command's environment, sorted by name, before the proxy.
func commandEnv(env []string, tmp string) []string {
	out := slices.DeleteFunc(slices.Clone(env), func(v string) bool { return envName(v) == "TMPDIR" || envName(v) == suffixName })
	if tmp != "" {
		out = append(out, "TMPDIR="+tmp)
	}
	slices.SortStableFunc(out, func(a, b string) int { return strings.Compare(envName(a), envName(b)) })
	return out
}

func envName(v string) string {
	name, _, _ := strings.Cut(v, "=")
	return name
}
