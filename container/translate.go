package container

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"pinfold/egress"
	"pinfold/guard"
	"pinfold/plan"
	"pinfold/policy"
)

// ProxyAddress is where the proxy listens on the container's own loopback.
const ProxyAddress = "127.0.0.1:3128"

// Host is what a translation asks of the machine.
type Host struct {
	// Exists reports whether something stands at a path of the host.
	Exists func(string) bool
	// Listening are the paths of the unix sockets that somebody on the host
	// listens on. One that isn't where its name says is searched for in what is
	// shown, if search says so.
	Listening func(ctx context.Context, shown *Reach, search bool) ([]string, error)
	// Seccomp is the profile for an architecture, in the engines' form, and
	// its digest.
	Seccomp func(arch string) ([]byte, error)
}

// Translate turns a Grant into a Launch for an engine. It makes nothing, and
// what this tier can't enforce is refused.
func Translate(g *guard.Grant, info Info, img Image, o Options, h Host) (*Launch, error) {
	in, err := inputOf(g)
	if err != nil {
		return nil, err
	}
	return translate(in, info, img, o, h)
}

func translate(in input, info Info, img Image, o Options, h Host) (*Launch, error) {
	for _, check := range []func() error{
		func() error { return checkImage(img, info) },
		func() error { return checkEngine(info, o) },
		func() error { return refuseUnbuilt(in) },
		func() error { return checkRequire(in, info) },
		func() error { return checkLimits(in, info) },
		func() error { return checkListening(in, h) },
	} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	filter, err := h.Seccomp(info.Arch)
	if err != nil {
		return nil, err
	}
	b, relays, err := build(in, o, h)
	if err != nil {
		return nil, err
	}
	if err := checkVolumes(img, b); err != nil {
		return nil, err
	}
	l := &Launch{
		Covers: b.covers, Missing: b.missing, Covered: b.covered, Checks: b.checks, Relays: relays, Reach: reachOf(in), Image: img, Info: info, Watches: in.Watches, Dir: in.Dir,
		Argv: respellAll(in.Spellings, in.Argv), Limits: in.Limits,
	}
	l.listen(in)
	l.Env = l.environment(in, img, o)
	l.Spec = specOf(in, info, img, o, b, filter)
	l.Plan = planOf(in, l, o, b)
	return l, nil
}

// maxMounts bounds the mounts of one container: a runtime makes each with
// several system calls, and writes all into one file of settings.
const maxMounts = 500

// build puts everything in its place.
func build(in input, o Options, h Host) (*builder, []Relay, error) {
	rules, err := rulesOf(in)
	if err != nil {
		return nil, nil, err
	}
	b := newBuilder(o, h.Exists)
	for _, dir := range privateDirs {
		b.surfaces[dir] = surfaceTmp
	}
	for _, r := range rules {
		if err := b.put(r); err != nil {
			return nil, nil, err
		}
	}
	relays, err := b.relays(in)
	if err != nil {
		return nil, nil, err
	}
	if len(b.mounts) > maxMounts {
		return nil, nil, &policy.Refusal{
			Reason: policy.Unavailable, Code: "too_many_mounts", Subject: "container",
			Why: fmt.Sprintf("cannot build the container: the rules need %d mounts, more than %d", len(b.mounts), maxMounts),
			Fix: "deny or grant whole directories instead of the many paths in them",
		}
	}
	b.own()
	return b, relays, nil
}

// privateDirs are the launch's own, and so is /dev/shm, which the engine makes.
var privateDirs = []string{"/tmp", "/var/tmp", "/dev/shm"} //nolint:gochecknoglobals // a table

// own mounts what pinfold itself needs inside.
func (b *builder) own() {
	b.bind(Mount{Source: b.o.Stub, Target: StubPath, ReadOnly: true})
	b.bind(Mount{Source: b.o.Handover, Target: RunDir, ReadOnly: true})
	for _, t := range b.o.Tools {
		b.bind(Mount{Source: t, Target: path.Join(ToolsDir, path.Base(t)), ReadOnly: true})
	}
}

// Relay is one listed socket that the supervisor stands in for: it listens
// in Dir, which shows read-only in the container where the socket's own
// directory would, and connects to the real one. So nothing else of that
// directory shows, and a server that comes back is found again.
type Relay struct {
	Socket string // the real one, and its path inside
	Dir    string // on the host, to be made by the supervisor
	Listen string // the path in Dir to listen on
}

// relays mount a directory of the supervisor's for each listed socket that
// doesn't show anyway.
func (b *builder) relays(in input) ([]Relay, error) {
	var out []Relay
	dirs := map[string]string{}
	for _, s := range in.Sockets {
		dir, _ := path.Split(s.Path)
		dir = path.Clean(dir)
		at, seen := b.above(s.Path)
		if seen == surfaceRW || seen == surfaceRO {
			continue // it shows in a grant
		}
		r := rule{target: dir, access: guard.ReadOnly, kind: guard.Dir, from: s.Rule}
		if slices.Contains(privateDirs, dir) || at == s.Path || b.holds(dir) {
			return nil, inexpressibleRefusal(r, fmt.Sprintf("the directory of the socket %q can't be shown apart from what else is there", s.Path))
		}
		if why := inexpressible(r); why != "" {
			return nil, inexpressibleRefusal(r, why)
		}
		if _, ok := dirs[dir]; !ok {
			dirs[dir] = path.Join(b.o.Relays, fmt.Sprint(len(dirs)))
			if err := b.mountPoint(r); err != nil {
				return nil, err
			}
			b.bind(Mount{Source: dirs[dir], Target: dir, ReadOnly: true})
		}
		out = append(out, Relay{Socket: s.Path, Dir: dirs[dir], Listen: path.Join(dirs[dir], path.Base(s.Path))})
		b.lines = append(b.lines, plan.Mount{Path: s.Path, Access: guard.ReadOnly.String(), Kind: "socket", Rule: s.Rule})
	}
	return out, nil
}

// holds reports whether something is mounted at a directory or beneath it.
func (b *builder) holds(dir string) bool {
	return slices.ContainsFunc(b.mounts, func(m Mount) bool { return isAt(m.Target, dir) })
}

// listen asks for the listeners: the proxy's where any host is allowed, and
// one for each port of the host's loopback.
func (l *Launch) listen(in input) {
	if len(in.Network.Allow) > 0 {
		l.Proxy = ProxyAddress
		l.Listen = append(l.Listen, ProxyAddress)
	}
	for _, p := range in.Network.HostPorts {
		l.HostPorts = append(l.HostPorts, p)
		l.Listen = append(l.Listen, fmt.Sprintf("127.0.0.1:%d", p))
	}
}

// defaultPath is what an engine gives a command whose image names none.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// environment is the image's, the launch's on top, wired to the proxy.
func (l *Launch) environment(in input, img Image, o Options) []string {
	vars, order := map[string]string{"PATH": defaultPath}, []string{"PATH"}
	set := func(name, value string) {
		if _, ok := vars[name]; !ok {
			order = append(order, name)
		}
		vars[name] = value
	}
	for _, list := range [][]string{img.Env, respellAll(in.Spellings, in.Env)} {
		for _, kv := range list {
			if name, value, ok := strings.Cut(kv, "="); ok && name != "" {
				set(name, value)
			}
		}
	}
	if len(o.Tools) > 0 {
		set("PATH", ToolsDir+":"+vars["PATH"])
	}
	slices.Sort(order)
	env := make([]string, 0, len(order))
	for _, name := range order {
		if name != in.upstreamVariable() {
			env = append(env, name+"="+vars[name])
		}
	}
	var wiring []string
	if l.Proxy != "" {
		wiring = egress.ProxyEnv(l.Proxy)
	}
	env = egress.ApplyEnv(env, wiring)
	slices.SortStableFunc(env, func(a, b string) int { return strings.Compare(envName(a), envName(b)) })
	return env
}

// upstreamVariable holds a parent proxy's URL, and its password.
func (in input) upstreamVariable() string {
	name, _ := strings.CutPrefix(in.Network.Upstream, "env:")
	return name
}

func envName(kv string) string {
	name, _, _ := strings.Cut(kv, "=")
	return name
}

// respellAll rewrites what names a granted path through a symbolic link, which
// doesn't exist inside, to the path that does.
func respellAll(spellings []guard.Spelling, list []string) []string {
	out := make([]string, 0, len(list))
	for _, s := range list {
		out = append(out, respell(spellings, s))
	}
	return out
}

// respell rewrites whole paths only: at the start of a word or after "=" or
// ":", and up to its end, a "/" or a ":". What a shell script says is left
// alone.
func respell(spellings []guard.Spelling, s string) string {
	for _, p := range spellings {
		from := 0
		for {
			i := strings.Index(s[from:], p.Given)
			if i < 0 {
				break
			}
			i += from
			end := i + len(p.Given)
			if (i == 0 || s[i-1] == '=' || s[i-1] == ':') && (end == len(s) || s[end] == '/' || s[end] == ':') {
				s = s[:i] + p.Canonical + s[end:]
				end = i + len(p.Canonical)
			}
			from = end
		}
	}
	return s
}
