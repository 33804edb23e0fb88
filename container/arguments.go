package container

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"pinfold/stub/wire"
)

// Arguments are what "docker create" would be told for the same container,
// for people and for the plan: complete, but for the filter, which is named
// by its digest. Pinfold itself asks through the engine's API. The label of
// the plan's own digest is left out, since the plan holds these.
func Arguments(s Spec) []string {
	a := []string{
		"--pull", "never", "--network", "none", "--ipc", "private", "--cgroupns", "private", "--cap-drop", "ALL",
		"--security-opt", "no-new-privileges", "--security-opt", "seccomp=sha256:" + digest(s.Seccomp),
		"--read-only", "--restart", "no", "--log-driver", "none", "--no-healthcheck", "--stop-signal", strconv.Itoa(wire.StopSignal),
		"--user", fmt.Sprintf("%d:%d", s.UID, s.GID), "--hostname", s.Hostname, "--workdir", s.Dir,
		"--shm-size", strconv.FormatInt(s.ShmSize, 10),
	}
	if s.Userns != "" {
		a = append(a, "--userns", s.Userns)
	}
	a = append(a, limitArguments(s.Limits)...)
	for _, t := range s.Tmpfs {
		a = append(a, "--tmpfs", fmt.Sprintf("%s:rw,nosuid,nodev,mode=%o,size=%d,uid=%d,gid=%d", t.Target, t.Mode, t.Size, s.UID, s.GID))
	}
	for _, m := range s.Mounts {
		a = append(a, "--mount", mountArgument(m))
	}
	for _, v := range s.Volumes {
		a = append(a, "--mount", "type=volume,readonly,"+field("target", v))
	}
	for _, p := range s.MaskedPaths {
		a = append(a, "--security-opt", "mask="+p)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Labels)) {
		if name != LabelDigest {
			a = append(a, "--label", name+"="+s.Labels[name])
		}
	}
	a = append(a, "--entrypoint", strings.Join(s.Entrypoint, " "), s.Image)
	return append(a, s.Args...)
}

func limitArguments(l Limits) []string {
	a := []string{"--ulimit", "core=0"}
	add := func(flag, value string, set bool) {
		if set {
			a = append(a, flag, value)
		}
	}
	add("--cpus", strconv.FormatFloat(l.CPUs, 'g', -1, 64), l.CPUs != 0)
	add("--memory", strconv.FormatInt(l.Memory, 10), l.Memory != 0)
	add("--memory-swap", strconv.FormatInt(l.Memory, 10), l.Memory != 0)
	add("--pids-limit", strconv.FormatInt(l.PIDs, 10), l.PIDs != 0)
	add("--ulimit", fmt.Sprintf("nproc=%d", l.Processes), l.Processes != 0)
	add("--ulimit", fmt.Sprintf("nofile=%d", l.Files), l.Files != 0)
	add("--ulimit", fmt.Sprintf("fsize=%d", l.FileSize), l.FileSize != 0)
	return a
}

func mountArgument(m Mount) string {
	s := "type=bind," + field("source", m.Source) + "," + field("target", m.Target) + ",bind-propagation=rprivate"
	if m.ReadOnly {
		s += ",readonly"
	}
	return s
}

// field is one of the comma separated fields of --mount, quoted as CSV where
// it holds what CSV sees something in.
func field(name, value string) string {
	f := name + "=" + value
	if strings.ContainsAny(f, "\",\n\r") {
		return `"` + strings.ReplaceAll(f, `"`, `""`) + `"`
	}
	return f
}
