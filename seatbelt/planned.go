package seatbelt

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"pinfold/egress"
	"pinfold/guard"
	"pinfold/plan"
	"pinfold/policy"
)

// The names of what is known only when a launch starts, as the Plan has them.
const (
	profileToken = "{file:profile}"
	ttyToken     = "{tty}"
)

// InsideArg is the one argument of the program that is run inside.
const InsideArg = "__inside"

// arguments are sandbox-exec's, with a path for the profile and a terminal.
func (l *Launch) arguments(file, tty string) []string {
	args := []string{"-f", file}
	for _, p := range l.Text.Params {
		args = append(args, "-D", p.Name+"="+p.Value)
	}
	return append(args, "-D", ttyParam+"="+tty, "--", l.Inside, InsideArg)
}

// planOf is the launch as it is pinned. The profile's digest is that of the
// text with tokens for the proxy's port and for fresh directories, so that it
// stays the same from run to run.
func planOf(in input, m Machine, o LaunchOptions, l *Launch) *plan.Plan {
	f := fresh(o.Fresh)
	text := f.text(l.Text.Profile)
	args := l.arguments(profileToken, ttyToken)
	for i, a := range args {
		args[i] = f.text(a)
	}
	p := &plan.Plan{
		Version: plan.Version, Backend: "seatbelt", Tool: m.Tool, Args: args,
		Data:    []plan.Data{{Name: "profile", SHA256: digest(text), Size: int64(len(text))}},
		Command: in.argv, Dir: f.name(in.dir),
		EnvNames: envNames(l.environment(proxyAt{host: "127.0.0.1:1", token: "x"})), Withheld: in.held,
		Mounts: mounts(in, f), Hosts: hostTexts(in.network.Allow), DenyHosts: hostTexts(in.network.Deny),
		Terms:   in.network.Terms(),
		Sockets: socketPaths(in.sockets), Layers: layers(o), Limits: limitTexts(in.limits),
		Signals: plan.Signals{Stop: "term"},
		Require: in.require, Owner: in.owner, Paths: f.paths(in.paths), Notes: slices.Concat(in.notes, notes(in, o)),
	}
	if l.Proxy {
		p.Listeners = []string{"127.0.0.1:{proxy}"}
	}
	return p
}

// notes say what holds on Linux and not here.
func notes(in input, o LaunchOptions) []string {
	out := []string{
		"macOS: a denied path that looks empty on Linux can't be opened here",
		"macOS: a process that leaves the run's session and its parent may outlive the run, inside the boundary and without network",
	}
	if len(in.network.HostPorts) > 0 {
		out = append(out, "macOS: host_ports are this machine's own loopback, not a forwarded port")
	}
	if o.Root {
		out = append(out, "macOS: run as root, so the network's configuration (configd) can't be read: programs in Rust may fail")
	}
	return out
}

func layers(o LaunchOptions) []plan.Layer {
	trustd := "off: not asked for"
	if o.Trustd {
		trustd = "on: programs may ask the system's certificate daemon, which fetches by itself"
	}
	return []plan.Layer{{Name: "seatbelt", State: "on"}, {Name: "trustd", State: trustd}}
}

// mounts are the rules, as the table of mounts has them elsewhere.
func mounts(in input, f fresh) []plan.Mount {
	var out []plan.Mount
	add := func(p, access string, r guard.Rule) {
		r.Text = f.name(r.Text)
		out = append(out, plan.Mount{Path: f.name(p), Access: access, Kind: "rule", Rule: r})
	}
	for _, e := range in.entries {
		add(e.Path, e.Access.String(), e.Rule)
	}
	for _, p := range in.pins {
		add(p.Path, "pin", guard.Rule{Class: guard.ClassBuiltin, Text: "pinned", Source: "something beneath is covered"})
	}
	for _, w := range in.watches {
		add(w.Path, "unmade", w.Rule)
	}
	return out
}

func hostTexts(hosts []policy.HostPattern) []string {
	var out []string
	for _, h := range hosts {
		out = append(out, h.Text)
	}
	return out
}

func socketPaths(sockets []guard.Socket) []string {
	var out []string
	for _, s := range sockets {
		out = append(out, s.Path)
	}
	return out
}

func limitTexts(l policy.Limits) []plan.Limit {
	var out []plan.Limit
	for _, n := range []struct {
		name  string
		value int64
	}{{"files", l.Files}, {"file_size", l.FileSize}} {
		if n.value != 0 {
			out = append(out, plan.Limit{Name: n.name, Value: strconv.FormatInt(n.value, 10)})
		}
	}
	if l.Timeout != 0 {
		out = append(out, plan.Limit{Name: "timeout", Value: l.Timeout.String()})
	}
	return out
}

func envNames(env []string) []string {
	out := make([]string, 0, len(env))
	for _, v := range env {
		out = append(out, envName(v))
	}
	return out
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// proxyAt is where a run's proxy listens, and the password that it asks for.
type proxyAt struct {
	host, token string
}

// proxyUser is the name that goes with the token; a proxy URL has to have one.
const proxyUser = "pinfold"

// environment is the command's whole environment.
func (l *Launch) environment(at proxyAt) []string {
	var wiring []string
	if l.Proxy {
		wiring = egress.ProxyEnvAuth(at.host, egress.Password{User: proxyUser, Secret: at.token})
		if l.helper != "" {
			wiring = append(wiring, egress.SSHEnv(l.helper)...)
		}
	}
	out := egress.ApplyEnv(l.env, wiring)
	slices.SortStableFunc(out, func(a, b string) int { return strings.Compare(envName(a), envName(b)) })
	return out
}
