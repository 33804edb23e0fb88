package bwrap

import (
	"errors"
	"slices"
	"strings"

	"pinfold/guard"
	"pinfold/policy"
	"pinfold/stub/wire"
	"pinfold/supervise"
)

// Translate turns a Grant into a Launch for a machine. It is pure: the same
// arguments give the same Launch. What this tier can't enforce is refused.
func Translate(g *guard.Grant, m Machine, o Options) (*Launch, error) {
	l, err := translate(inputOf(g), m, o)
	if err == nil {
		l.judge = g
	}
	return l, err
}

func translate(in input, m Machine, o Options) (*Launch, error) {
	if err := refuseUnbuilt(in); err != nil {
		return nil, err
	}
	if err := checkMachine(m); err != nil {
		return nil, err
	}
	if o.Parts != nil && o.Parts.Notify == nil {
		m.Notify, m.NotifyWhy = false, "the launch has no second filter"
	}
	md := mediate(in, m)
	if err := checkRequire(in.Require, m, md); err != nil {
		return nil, err
	}
	if err := errors.Join(checkSockets(in, m), checkMode(in, m), checkPorts(in, md)); err != nil {
		return nil, err
	}
	in = withNamePassage(in, m, md)
	if o.Parts == nil {
		parts, err := embedded(m.Arch, md.mode)
		if err != nil {
			return nil, err
		}
		o.Parts = parts
	}
	b, err := build(in, m, o, md)
	if err != nil {
		return nil, err
	}
	l := &Launch{
		Args:   append(isolation(), b.args...),
		Data:   append([]Datum{{Name: DataSeccomp, Content: o.Parts.Filter}}, b.data...),
		Stub:   StubPath,
		Ghosts: b.ghosts, Watches: in.Watches, recipes: b.recipes,
		Setup:  setup(in, m, o, b),
		setEnv: in.SetEnv,
		fresh:  o.Fresh,
		hand:   o.Parts.hand,
	}
	if m.RunsMemfd {
		l.Stub, l.Data = StubFile, append(l.Data, o.Parts.stub())
	}
	l.bound(in)
	l.mediate(in, m, o, md)
	l.Setup.Calls = supervise.SampleCalls(m.Arch, md.mode)
	if err := checkSize(b, l, in); err != nil {
		return nil, err
	}
	if !m.Whole {
		l.later = b.last()
	}
	if md.proxy {
		l.Proxy = ProxyAddress
		l.Setup.Listen = []string{ProxyAddress}
	}
	l.Setup.Env = commandEnv(withoutUpstream(in), l.Proxy, sshHelper(in, o, md))
	if in.Network.Upstream != "" {
		in.Notes = append(slices.Clone(in.Notes), upstreamNote)
	}
	l.Plan = planOf(in, m, o, b, l, md)
	return l, nil
}

// upstreamNote says what changes with a parent proxy.
const upstreamNote = "a parent proxy (network.upstream) resolves the names: what addresses they have isn't checked"

// withoutUpstream is the environment without the variable that a parent
// proxy's URL, and its password, stand in.
func withoutUpstream(in input) []string {
	name, ok := strings.CutPrefix(in.Network.Upstream, "env:")
	if !ok {
		return in.Env
	}
	return slices.DeleteFunc(slices.Clone(in.Env), func(v string) bool { return envName(v) == name })
}

// sshHelper is the program that carries ssh through the proxy, where ssh needs
// one and the program can be seen inside.
func sshHelper(in input, o Options, md mediation) string {
	if md.transparent || in.Base != policy.BaseHost && in.Base != "" {
		return ""
	}
	for _, private := range []string{"/tmp", "/var/tmp", "/dev", "/proc"} {
		if strings.HasPrefix(o.Pinfold, private+"/") {
			return ""
		}
	}
	return o.Pinfold
}

// mediate has the stub load the second filter and make what the supervisor
// needs to answer it.
func (l *Launch) mediate(in input, m Machine, o Options, md mediation) {
	l.uses = socketUses(in, m, md)
	for _, u := range l.uses {
		l.Setup.Sockets = append(l.Setup.Sockets, socketOf(u))
	}
	l.expose = in.Network.Expose
	if !md.notify {
		return
	}
	l.Setup.Filter = o.Parts.Notify
	l.Transparent = md.transparent
	l.Sockets = listedSockets(in)
	l.AllSockets = in.UnixSockets == policy.SocketsAll
}

// isolation is what every launch begins with. --unshare-user is asked for by
// name, since bubblewrap run by root leaves it out otherwise; --cap-drop ALL
// likewise, since root's command would keep every capability. The name of the
// host is copied into the uts namespace by the kernel.
func isolation() []string {
	return []string{
		"--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup",
		"--disable-userns", "--die-with-parent", "--new-session",
		"--cap-drop", "ALL",
		"--seccomp", fdName(DataSeccomp),
		"--chdir", "/",
	}
}

// setup is what the stub must know, less what belongs to one start.
func setup(in input, m Machine, o Options, b *builder) wire.Setup {
	return wire.Setup{
		Version:  wire.Version,
		Argv:     in.Argv,
		Dir:      in.Dir,
		Checks:   b.checks,
		Landlock: landlock(b, m),
		Umask:    o.Umask,
		Limits:   rlimits(in.Limits),

		ShareSignals: true,
	}
}
