package bwrap

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"pinfold/guard"
	"pinfold/plan"
	"pinfold/policy"
)

// planOf is the launch as it is pinned.
func planOf(in input, m Machine, o Options, b *builder, l *Launch, md mediation) *plan.Plan {
	f, data := freshNames(o.Fresh), planData(l.Data)
	return &plan.Plan{
		Version: plan.Version, Backend: "bwrap", Tool: m.Bwrap,
		Args:    f.all(l.Args),
		Data:    data,
		Command: in.Argv, Dir: f.name(in.Dir),
		EnvNames: envNames(l.Setup.Env), Withheld: in.Withheld,
		Mounts:    f.mounts(b.mounts),
		Hosts:     hostTexts(in.Network.Allow),
		DenyHosts: hostTexts(in.Network.Deny),
		Terms:     in.Network.Terms(),
		Sockets:   socketPaths(in.Sockets),
		Listeners: l.Setup.Listen,
		Layers:    layers(m, md),
		Filter:    plan.Filter{Mode: string(md.mode), Arch: m.Arch, SHA256: digest(o.Parts.Filter), Notify: notifyDigest(o, md)},
		Limits:    limitTexts(in.Limits),
		// TERM reaches the command itself, which may handle it.
		Signals: plan.Signals{Stop: "term"},
		Require: in.Require, Owner: in.Owner, Paths: f.paths(in.Paths), Notes: in.Notes,
		Stub: stubDigest(data),
	}
}

func planData(data []Datum) []plan.Data {
	out := make([]plan.Data, 0, len(data))
	for i := range data {
		d := &data[i]
		sum := d.sum
		if sum == "" {
			sum = digest(d.Content)
		}
		out = append(out, plan.Data{Name: d.Name, SHA256: sum, Size: d.size()})
	}
	return out
}

// stubDigest takes the stub's from the rest: it is a million bytes, and a
// launch waits for its digest.
func stubDigest(data []plan.Data) string {
	i := slices.IndexFunc(data, func(d plan.Data) bool { return d.Name == DataStub })
	return data[i].SHA256
}

// notifyDigest is the second program's, where it is loaded.
func notifyDigest(o Options, md mediation) string {
	if !md.notify {
		return ""
	}
	return digest(o.Parts.Notify)
}

func socketPaths(sockets []guard.Socket) []string {
	var out []string
	for _, s := range sockets {
		out = append(out, s.Path)
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

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// freshNames replaces directories made for one launch by their names. A name
// can't be mistaken for a path: it doesn't begin with a slash.
type freshNames []Fresh

func (f freshNames) name(p string) string {
	for _, fresh := range f {
		if p == fresh.Path || isBelow(p, fresh.Path) {
			return fresh.Name + strings.TrimPrefix(p, fresh.Path)
		}
	}
	return p
}

// path is the directory that a name stands for, and what lies beneath.
func (f freshNames) path(name string) string {
	for _, fresh := range f {
		if rest, ok := strings.CutPrefix(name, fresh.Name); ok && (rest == "" || rest[0] == '/') {
			return fresh.Path + rest
		}
	}
	return name
}

func (f freshNames) all(paths []string) []string {
	out := make([]string, 0, len(paths))
	for _, p := range paths {
		out = append(out, f.name(p))
	}
	return out
}

func (f freshNames) mounts(ms []plan.Mount) []plan.Mount {
	out := make([]plan.Mount, 0, len(ms))
	for _, m := range ms {
		m.Path = f.name(m.Path)
		m.Rule.Text = f.name(m.Rule.Text)
		out = append(out, m)
	}
	return out
}

func (f freshNames) paths(p guard.Paths) guard.Paths {
	for _, s := range []*string{&p.Workspace, &p.Run, &p.Toolbelt, &p.Home, &p.Record, &p.State, &p.Tmp} {
		*s = f.name(*s)
	}
	return p
}
