package bwrap

import (
	"slices"

	"pinfold/guard"
	"pinfold/plan"
	"pinfold/policy"
)

// resolvConf has programs ask the supervisor, who listens on the sandbox's
// own loopback. A refusal is final, so there is no second attempt.
const resolvConf = "nameserver 127.0.0.1\noptions attempts:1\n"

// hostsFile is the launch's own: an entry of the host's could lead a name to
// the loopback, which is another one inside.
func hostsFile(hostname string) string {
	text := "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
	if hostname != "" && hostname != "localhost" {
		text += "127.0.0.1 " + hostname + "\n"
	}
	return text
}

// nameFiles are the files by which programs look names up, and what they hold
// in a launch whose names the supervisor answers.
func nameFiles(in input, m Machine) map[string]string {
	resolv, hosts := m.Resolv, m.Hosts
	if in.Base == policy.BaseNone {
		resolv, hosts = "/etc/resolv.conf", "/etc/hosts"
	}
	files := map[string]string{resolv: resolvConf, hosts: hostsFile(m.Hostname)}
	delete(files, "") // the host has none, and programs ask the loopback then
	for _, e := range in.Entries {
		delete(files, e.Path) // a rule of its own holds there
	}
	return files
}

// namePlaces mount them.
func namePlaces(in input, m Machine, md mediation) []place {
	if !md.transparent {
		return nil
	}
	var places []place
	for p, text := range nameFiles(in, m) {
		places = append(places, builtin(p, func(b *builder) {
			b.passage(p)
			b.coverFile(p, 0o444, []byte(text), true, plan.Mount{Access: guard.ReadOnly.String(), Rule: builtinRule("network.mode")})
		}))
	}
	return places
}

// withNamePassage lets the name files be reached where a rule hides the
// directory that holds one: systemd-resolved keeps its file beside its
// sockets.
func withNamePassage(in input, m Machine, md mediation) input {
	if !md.transparent {
		return in
	}
	in.Entries = slices.Clone(in.Entries)
	for p := range nameFiles(in, m) {
		nearest := nearestEntry(in, p)
		for i := range in.Entries {
			if e := &in.Entries[i]; e.Path == nearest && e.Access < guard.ReadOnly {
				e.Passable = true
			}
		}
	}
	return in
}
