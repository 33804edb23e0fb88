package policy

import "fmt"

// The fields of a policy document. The parser, the schema and the check that
// docs/policy.md names every field all read these tables.

func policyFields(p *Policy) []field {
	return []field{
		{name: "version", doc: "The version of this format: 1, also when absent.", shape: integer(&p.Version, 1, 1)},
		{name: "extends", doc: "Documents this one builds on, first to last: \"preset:NAME\", or a file as \"./base.json\" or an absolute path. Lists of all are joined; of single values the later document's holds, this one's last.", shape: extendsList(&p.Extends)},
		{name: "tier", doc: "The kind of boundary: process (the default) or container.", shape: enum(&p.Tier, TierProcess, TierContainer)},
		{name: "write", doc: "Paths that may be read and written. A leading \"?\" leaves a missing one out; without it a missing one is refused.", shape: paths(&p.Write)},
		{name: "read", doc: "What may be read.", shape: object(readFields(&p.Read), nil)},
		{name: "read_only", doc: "Paths that may be read but never written, even beneath a write grant. They grant nothing.", shape: paths(&p.ReadOnly)},
		{name: "guard_workspace", doc: "Whether files that host programs run or obey (.git/hooks, .vscode …) stay read-only inside write grants: true (the default), false, or an object with exceptions.", shape: guardWorkspace(&p.GuardWorkspace)},
		{name: "hard_links", doc: "Files in write grants that have another name outside: \"refuse\" (the default), or an object that accepts some.", shape: hardLinks(&p.HardLinks)},
		{name: "network", doc: "What may be reached over the network: nothing unless listed.", shape: object(networkFields(&p.Network), nil)},
		{name: "sockets", doc: "Unix sockets that may be connected to, by path.", shape: paths(&p.Sockets)},
		{name: "unix_sockets", doc: "listed (the default): only sockets may be reached; all: every socket that is visible.", shape: enum(&p.UnixSockets, SocketsListed, SocketsAll)},
		{name: "env", doc: "The command's environment.", shape: object(envFields(&p.Env), nil)},
		{name: "limits", doc: "Bounds on what the command may use; none unless given.", shape: object(limitFields(&p.Limits), nil)},
		{name: "require", doc: "Layers without which nothing may run: \"netns\", \"seccomp_notify\", \"landlock>=4\".", shape: plainList(&p.Require, requirement)},
		{name: "container", doc: "The container tier.", shape: object(containerFields(&p.Container), nil)},
	}
}

func readFields(r *Read) []field {
	return []field{
		{name: "base", doc: "What is readable before any rule: host (the default; everything not denied), system (the operating system), none.", shape: enum(&r.Base, BaseHost, BaseSystem, BaseNone)},
		{name: "deny", doc: "Paths that may be neither read nor written.", shape: denyPaths(&r.Deny)},
		{name: "allow", doc: "Paths that may be read: exceptions beneath a deny, and what base doesn't show. One that names a default deny exactly lifts it.", shape: paths(&r.Allow)},
	}
}

// guardWorkspace: true and false say everything, so they forget the
// exceptions of a document below; objects add to them.
func guardWorkspace(g *GuardWorkspace) shape {
	fields := []field{
		{name: "except", doc: "Guarded names that may be written: \".vscode\", \".git/config\".", required: true, shape: plainList(&g.Except, exception)},
	}
	return either("true, false or an object", map[nodeKind]shape{
		boolNode:   boolean(func(on bool) { *g = GuardWorkspace{Off: !on} }),
		objectNode: object(fields, func(*decoder, *node, string) { g.Off = false }),
	})
}

func hardLinks(h *HardLinks) shape {
	refuse := ""
	word := enum(&refuse, "refuse")
	word.read = func(d *decoder, n *node, at string) {
		if n.text != "refuse" {
			d.fail(n, at, fmt.Sprintf("%q is none of refuse", clip(n.text)), `write "refuse", or {"allow_from": ["~/.local/share/pnpm/store"]} with the stores that are meant`)
		}
		h.AllowFrom = nil
	}
	return either("\"refuse\" or an object", map[nodeKind]shape{
		stringNode: word,
		objectNode: object([]field{
			{name: "allow_from", doc: "Stores whose files may be linked into a write grant. A write goes through to the store, and the plan says so.", required: true, shape: paths(&h.AllowFrom)},
		}, nil),
	})
}

func networkFields(n *Network) []field {
	allow := func(p *HostPattern) shape { return allowHost(p) }
	deny := func(p *HostPattern) shape { return hostText(p, denyPattern, ParseDenyPattern) }
	port := func(p *uint16) shape { return integer(p, 1, 65535) }
	return []field{
		{name: "allow", doc: "Hosts that may be reached: \"host\", \"host:port\", \"*.domain\", an address, a prefix \"10.0.0.0/8\", each with or without a port; or an object.", shape: list(&n.Allow, allow)},
		{name: "deny", doc: "Hosts that may not be reached whatever allow says; \"*\" is all.", shape: list(&n.Deny, deny)},
		{name: "mode", doc: "How connections reach the supervisor: auto (the default), proxy (by proxy variables), transparent (programs need not know).", shape: enum(&n.Mode, ModeAuto, ModeProxy, ModeTransparent)},
		{name: "verify_tls_name", doc: "Whether the server name that a TLS client sends must be the host that was allowed.", shape: boolean(func(b bool) { n.VerifyTLSName = &b })},
		{name: "host_ports", doc: "Ports of the host's loopback, seen inside at the same port of 127.0.0.1.", shape: list(&n.HostPorts, port)},
		{name: "expose", doc: "Ports inside that the host may connect to: \"3000\", \"8080:80\" (outside:inside), \"127.0.0.1:8080:80\".", shape: list(&n.Expose, expose)},
		{name: "budget", doc: "How much may leave in one run, all hosts together.", shape: object(budgetFields(&n.Budget), nil)},
		{name: "upstream", doc: "A parent proxy: \"env\" for that of the proxy variables, a URL (http, https, socks5, socks5h) without a password, or \"env:NAME\" or \"file:/path\" for where the URL stands. \"?no_proxy=LIST\" after a URL excepts hosts.", shape: upstream(&n.Upstream)},
	}
}

func budgetFields(b *Budget) []field {
	return []field{
		{name: "bytes_up", doc: "Bytes sent: a number, or text with k, m or g.", shape: size(&b.BytesUp)},
		{name: "connections", doc: "Connections made.", shape: integer(&b.Connections, 1, maxInteger)},
		{name: "hosts", doc: "Different hosts reached.", shape: integer(&b.Hosts, 1, maxInteger)},
	}
}

func envFields(e *Env) []field {
	return []field{
		{name: "set", doc: "Variables to set, by name.", shape: envSet(&e.Set)},
		{name: "drop", doc: "Variables to leave out; a \"*\" at the end matches any rest.", shape: plainList(&e.Drop, envDrop)},
		{name: "secrets", doc: "Variables that look like credentials and are passed on all the same.", shape: plainList(&e.Secrets, envName)},
	}
}

// envSet is an object whose names are free.
func envSet(set *map[string]string) shape {
	read := func(d *decoder, n *node, at string) {
		if !d.is(n, objectNode, at) {
			return
		}
		seen := map[string]bool{}
		for _, m := range n.members {
			d.envMember(m, join(at, m.name), seen[m.name], set)
			seen[m.name] = true
		}
	}
	return shape{read, func() schemaObject {
		return schemaObject{
			"type":                 "object",
			"propertyNames":        schemaObject{"pattern": envName.pattern},
			"additionalProperties": schemaObject{"type": "string", "pattern": anyText.pattern},
		}
	}}
}

func (d *decoder) envMember(m member, at string, again bool, set *map[string]string) {
	value := ""
	switch before := len(d.errs); {
	case again:
		d.beyond(m.at, at, "it stands there twice", "")
	case !envName.holds(m.name):
		d.add(&ParseError{At: m.at, Field: at, Msg: envName.why})
	default:
		plain(&value, anyText).read(d, m.value, at)
		if len(d.errs) > before {
			return
		}
		if *set == nil {
			*set = map[string]string{}
		}
		(*set)[m.name] = value
	}
}

// The greatest values that Linux takes: PID_MAX_LIMIT of a 64-bit machine,
// and the ceiling of fs.nr_open.
const (
	maxPIDs  = 1 << 22
	maxFiles = 2147483584
	maxCPUs  = 8192
)

func limitFields(l *Limits) []field {
	return []field{
		{name: "cpus", doc: "Processors' worth of time: 0.5, 2.", shape: number(&l.CPUs, 0.01, maxCPUs)},
		{name: "memory", doc: "Bytes of memory: a number, or text with k, m or g.", shape: size(&l.Memory)},
		{name: "pids", doc: "Processes and threads at once.", shape: integer(&l.PIDs, 1, maxPIDs)},
		{name: "files", doc: "Open files of one process.", shape: integer(&l.Files, 1, maxFiles)},
		{name: "file_size", doc: "Bytes of one written file: a number, or text with k, m or g.", shape: size(&l.FileSize)},
		{name: "tmp", doc: "Bytes of the private temporary directories: a number, or text with k, m or g.", shape: size(&l.Tmp)},
		{name: "timeout", doc: "How long the command may run: \"90s\", \"30m\", \"1h30m\".", shape: duration(&l.Timeout)},
		{name: "idle_timeout", doc: "How long the command may be silent.", shape: duration(&l.IdleTimeout)},
	}
}

func containerFields(c *Container) []field {
	return []field{
		{name: "runtime", doc: "The engine: docker, podman, runc or crun.", shape: enum(&c.Runtime, "docker", "podman", "runc", "crun")},
		{name: "context", doc: "The engine's context, by name.", shape: plain(&c.Context, word)},
		{name: "image", doc: "The image, pinned by digest (or by ID for a local one).", shape: plain(&c.Image, word)},
		{name: "build", doc: "How to build the image where none is named: base and install, dockerfile_inline, or dockerfile.", shape: buildShape(&c.Build)},
		{name: "mounts", doc: "Host paths to show elsewhere inside.", shape: list(&c.Mounts, mountShape)},
	}
}

func mountShape(m *ContainerMount) shape {
	return object([]field{
		{name: "source", doc: "The host's path.", required: true, shape: pathRule(&m.Source, false)},
		{name: "target", doc: "Where it appears inside: an absolute path.", required: true, shape: cleanTarget(&m.Target)},
		{name: "mode", doc: "ro (the default) or rw.", shape: enum(&m.Mode, "ro", "rw")},
	}, nil)
}

// buildShape reads one of the three forms; a later document's replaces an
// earlier one's whole.
func buildShape(dst **Build) shape {
	var b Build
	var dockerfile PathRule
	fields := []field{
		{name: "base", doc: "The image to start from.", shape: plain(&b.Base, word)},
		{name: "install", doc: "Shell commands to run on it.", shape: plainList(&b.Install, someText)},
		{name: "dockerfile_inline", doc: "A Dockerfile's text.", shape: plain(&b.DockerfileInline, someText)},
		{name: "dockerfile", doc: "A Dockerfile's path; its folder is the build's context.", shape: pathRule(&dockerfile, false)},
	}
	s := object(fields, func(d *decoder, n *node, at string) {
		if !isBuild(n) {
			d.fail(n, at, "it is none of its three forms", "give base and install, or dockerfile_inline, or dockerfile")
			return
		}
		if dockerfile.Text != "" {
			b.Dockerfile = &dockerfile
		}
		*dst = &b
	})
	plainSchema := s.schema
	s.schema = func() schemaObject {
		whole := plainSchema()
		form := func(names ...string) schemaObject {
			return schemaObject{"required": names, "maxProperties": len(names)}
		}
		whole["oneOf"] = []schemaObject{form("base", "install"), form("dockerfile_inline"), form("dockerfile")}
		return whole
	}
	return s
}

func isBuild(n *node) bool {
	has := map[string]bool{}
	for _, m := range n.members {
		has[m.name] = true
	}
	return len(has) == 2 && has["base"] && has["install"] || len(has) == 1 && (has["dockerfile"] || has["dockerfile_inline"])
}
