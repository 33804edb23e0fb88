package container

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"pinfold/plan"
	"pinfold/policy"
)

// maskedPaths tell or do too much, and answer nothing: the engines' own list
// and ours.
var maskedPaths = []string{ //nolint:gochecknoglobals // a table
	"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/key-users", "/proc/keys", "/proc/kmsg", "/proc/latency_stats",
	"/proc/sched_debug", "/proc/scsi", "/proc/sysrq-trigger", "/proc/timer_list", "/proc/timer_stats",
	"/sys/devices/virtual/powercap", "/sys/firmware",
}

// readonlyPaths are the engines' own list and /dev: they mount a tmpfs of 64 MiB
// there, a read-only root or not, which uid 0 may write to without any
// capability. Podman takes no list of ours. What they mount beneath it, /dev/shm and /dev/pts, stays as it is,
// and a device is written to all the same.
var readonlyPaths = []string{"/dev", "/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys"} //nolint:gochecknoglobals // a table

// hostname is the container's own; the host's is nobody's business.
const hostname = "pinfold"

// specOf is the container that the engine is asked for.
func specOf(in input, info Info, img Image, o Options, b *builder, filter []byte) Spec {
	tmp := cmp.Or(in.Limits.Tmp, DefaultTmp)
	s := Spec{
		Image: img.ID, Entrypoint: []string{StubPath}, Args: o.Args, Dir: "/",
		UID: o.UID, GID: o.GID, Userns: usernsOf(info), Hostname: hostname,
		Mounts: b.mounts, Labels: o.Labels, ShmSize: tmp, Seccomp: filter,
		MaskedPaths: maskedPaths, ReadonlyPaths: readonlyPaths, Limits: limitsOf(in, info),
	}
	if info.Provider == "docker" && info.Rootless {
		// There uid 0 is the user that the engine runs as.
		s.UID, s.GID = 0, 0
	}
	for _, dir := range privateDirs[:2] {
		s.Tmpfs = append(s.Tmpfs, Tmpfs{Target: dir, Size: tmp, Mode: 0o1777, Exec: true})
	}
	for _, v := range img.Volumes {
		if _, ok := b.surfaces[v]; !ok {
			s.Volumes = append(s.Volumes, v)
		}
	}
	return s
}

// checkVolumes refuses an image with a volume that an engine would mount into
// a directory of the host's, making it there, or over what is the container's
// own.
func checkVolumes(img Image, b *builder) error {
	for _, v := range img.Volumes {
		at, s := b.above(v)
		why := inexpressible(rule{target: v})
		if why == "" && at != v && (s == surfaceRW || s == surfaceRO || s == surfaceCover || s == surfaceFile) {
			why = fmt.Sprintf("it lies in %q, which is the host's", at)
		}
		if why != "" {
			return &policy.Refusal{
				Reason: policy.Unavailable, Code: "image_volume", Subject: v, Rule: "container.image",
				Why: fmt.Sprintf("cannot use image %q: of its volume %q, %s", img.Name, v, why),
				Fix: "use an image without that VOLUME",
			}
		}
	}
	return nil
}

// usernsOf has the operator's user be the same inside: docker's remapping is
// left, and a rootless podman maps its own user onto itself.
func usernsOf(info Info) string {
	switch {
	case info.Remapped:
		return "host"
	case info.Provider == "podman" && info.Rootless:
		return "keep-id"
	}
	return ""
}

func limitsOf(in input, info Info) Limits {
	l := Limits{CPUs: in.Limits.CPUs, Memory: in.Limits.Memory, PIDs: cmp.Or(in.Limits.PIDs, DefaultPIDs), Files: in.Limits.Files, FileSize: in.Limits.FileSize}
	if !info.CanLimit.PIDs {
		l.PIDs, l.Processes = 0, DefaultPIDs
	}
	return l
}

// planOf is the launch as it is pinned.
func planOf(in input, l *Launch, o Options, b *builder) *plan.Plan {
	p := &plan.Plan{
		Version: plan.Version, Backend: l.Info.Provider,
		Tool:    plan.Tool{Path: l.Info.Endpoint, Version: l.Info.Version},
		Args:    Arguments(l.Spec),
		Data:    []plan.Data{data("seccomp", l.Spec.Seccomp)},
		Command: l.Argv, Dir: in.Dir,
		EnvNames: envNames(l.Env), Withheld: in.Withheld,
		Mounts: b.lines, Listeners: l.Listen,
		Filter:  plan.Filter{Mode: "container", Arch: l.Info.Arch, SHA256: digest(l.Spec.Seccomp)},
		Limits:  limitTexts(l.Spec, in.Limits),
		Signals: plan.Signals{Stop: "term"}, Require: in.Require, Owner: in.Owner, Paths: in.Paths,
		Notes: append(slices.Clone(in.Notes), notes(in, l)...), Stub: o.StubSHA256,
	}
	for _, h := range in.Network.Allow {
		p.Hosts = append(p.Hosts, h.Text)
	}
	for _, h := range in.Network.Deny {
		p.DenyHosts = append(p.DenyHosts, h.Text)
	}
	p.Terms = in.Network.Terms()
	for _, s := range in.Sockets {
		p.Sockets = append(p.Sockets, s.Path)
	}
	for _, name := range layers {
		p.Layers = append(p.Layers, plan.Layer{Name: name, State: layerState(l.Info, name)})
	}
	for _, name := range []string{"userns", "seccomp_notify", "landlock"} {
		p.Layers = append(p.Layers, plan.Layer{Name: name, State: "off: not in a container"})
	}
	return p
}

// notes are what a reader of the plan should know.
func notes(in input, l *Launch) []string {
	out := []string{fmt.Sprintf("image %s is %s", l.Image.Name, l.Image.ID)}
	if l.Spec.Limits.PIDs == 0 {
		out = append(out, fmt.Sprintf("%s can't count a container's processes here: %d of the user's are the bound (RLIMIT_NPROC)", l.Info.Provider, l.Spec.Limits.Processes))
	}
	if in.UnixSockets != policy.SocketsAll && len(l.Spec.Mounts) > 2 {
		out = append(out, "a unix socket that the host makes in a granted directory later ends the run, half a second after at most; until then it can be connected to")
	}
	if in.Network.Upstream != "" {
		out = append(out, "a parent proxy (network.upstream) resolves the names: what addresses they have isn't checked")
	}
	return out
}

func envNames(env []string) []string {
	names := make([]string, 0, len(env))
	for _, kv := range env {
		names = append(names, envName(kv))
	}
	return names
}

func data(name string, b []byte) plan.Data {
	return plan.Data{Name: name, SHA256: digest(b), Size: int64(len(b))}
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func limitTexts(s Spec, l policy.Limits) []plan.Limit {
	var out []plan.Limit
	add := func(name, value string, set bool) {
		if set {
			out = append(out, plan.Limit{Name: name, Value: value})
		}
	}
	add("cpus", strconv.FormatFloat(s.Limits.CPUs, 'g', -1, 64), s.Limits.CPUs != 0)
	add("memory", strconv.FormatInt(s.Limits.Memory, 10), s.Limits.Memory != 0)
	add("pids", strconv.FormatInt(s.Limits.PIDs, 10), s.Limits.PIDs != 0)
	add("files", strconv.FormatInt(s.Limits.Files, 10), s.Limits.Files != 0)
	add("file_size", strconv.FormatInt(s.Limits.FileSize, 10), s.Limits.FileSize != 0)
	add("tmp", strconv.FormatInt(s.ShmSize, 10), true)
	add("timeout", l.Timeout.String(), l.Timeout != 0)
	add("idle_timeout", l.IdleTimeout.String(), l.IdleTimeout != 0)
	return out
}
