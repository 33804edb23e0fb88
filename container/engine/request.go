package engine

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"pinfold/container"
	"pinfold/stub/wire"
)

// stubEnv keeps an image's environment from tuning the stub, a Go program:
// GODEBUG and its like would change how it runs.
var stubEnv = []string{"GODEBUG=", "GOGC=", "GOMAXPROCS=", "GOMEMLIMIT=", "GOTRACEBACK="} //nolint:gochecknoglobals // a table

// createRequestOf is a Spec as the API wants it. What an image could set is
// always set here: its entry point, user, stop signal, health check and
// volumes decide nothing.
func (e *Engine) createRequestOf(s container.Spec, filter string) createRequest {
	return createRequest{
		Image: s.Image, Entrypoint: s.Entrypoint, Cmd: nonNil(s.Args), Env: slices.Concat(stubEnv, s.Env),
		WorkingDir: s.Dir, User: userOf(s), Hostname: s.Hostname, Labels: s.Labels,
		StopSignal: strconv.Itoa(wire.StopSignal), Healthcheck: &healthcheck{Test: []string{"NONE"}},
		HostConfig: e.hostConfigOf(s, filter),
	}
}

// userOf names the group as well: with a user alone the engine would add the
// groups that the image's /etc/group gives that user.
func userOf(s container.Spec) string { return strconv.Itoa(s.UID) + ":" + strconv.Itoa(s.GID) }

func nonNil(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}

func (e *Engine) hostConfigOf(s container.Spec, filter string) hostConfig {
	h := hostConfig{
		NetworkMode: "none", IpcMode: "private", CgroupnsMode: "private", UsernsMode: s.Userns,
		CapDrop: []string{"ALL"}, ReadonlyRootfs: true,
		SecurityOpt: []string{"no-new-privileges:true", "seccomp=" + filter},
		MaskedPaths: s.MaskedPaths, ReadonlyPaths: s.ReadonlyPaths,
		Mounts: e.mountsOf(s), Tmpfs: e.tmpfsOf(s), ShmSize: s.ShmSize,
		NanoCpus: int64(math.Round(s.Limits.CPUs * 1e9)),
		Memory:   s.Limits.Memory, MemorySwap: s.Limits.Memory,
		Ulimits: e.ulimitsOf(s.Limits), LogConfig: e.logConfig(), RestartPolicy: restartPolicy{Name: "no"},
	}
	if s.Limits.PIDs > 0 {
		h.PidsLimit = &s.Limits.PIDs
	}
	return h
}

// logConfig keeps no log: what the command says is nobody's but the caller's.
// The pipe that docker still makes carries what the stub itself says before
// it has the caller's streams.
func (e *Engine) logConfig() logConfig { return logConfig{Type: "none"} }

func (e *Engine) mountsOf(s container.Spec) []apiMount {
	mounts := make([]apiMount, 0, len(s.Mounts)+len(s.Volumes))
	for _, m := range s.Mounts {
		mounts = append(mounts, apiMount{
			Type: "bind", Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly,
			BindOptions: &bindOptions{Propagation: "rprivate"},
		})
	}
	// A volume of the image's own would be a writable place that nobody
	// granted; a read-only one of the same content stands in its stead.
	for _, v := range s.Volumes {
		mounts = append(mounts, apiMount{Type: "volume", Target: v, ReadOnly: true})
	}
	return mounts
}

// tmpfsOf gives the private directories to the command's user. Docker's
// runtime copies the mode of the image's own directory over the tmpfs, but
// keeps the owner it is told; podman takes no uid and has U for it.
func (e *Engine) tmpfsOf(s container.Spec) map[string]string {
	out := map[string]string{}
	for _, t := range s.Tmpfs {
		options := []string{"rw", "nosuid", "nodev", fmt.Sprintf("mode=%o", t.Mode), fmt.Sprintf("size=%d", t.Size)}
		if e.podman {
			options = append(options, "U")
		} else {
			options = append(options, fmt.Sprintf("uid=%d", s.UID), fmt.Sprintf("gid=%d", s.GID))
		}
		if t.Exec {
			options = append(options, "exec")
		}
		out[t.Target] = strings.Join(options, ",")
	}
	if e.podman && !slices.ContainsFunc(s.Mounts, func(m container.Mount) bool { return m.Target == "/run" }) {
		// Beneath a read-only root podman has a writable one of its own there, and
		// bounds it by nothing.
		out["/run"] = "ro,nosuid,nodev,noexec,mode=755,size=65536"
	}
	return out
}

// podmanProcesses is what podman lowers its own RLIMIT_NPROC to: pid_max, as
// the kernel has it with few processors (PID_MAX_DEFAULT).
const podmanProcesses = 32768

// ulimitsOf are the bounds of one process. Podman asks for a million open
// files and processes of its own accord, and starts nothing where it may not
// set them, so it is told what this process has.
func (e *Engine) ulimitsOf(l container.Limits) []ulimit {
	out := []ulimit{{Name: "core", Soft: 0, Hard: 0}}
	if e.podman {
		l.Files = cmp.Or(l.Files, openFiles())
		l.Processes = min(cmp.Or(l.Processes, podmanProcesses), processes())
	}
	if l.Files > 0 {
		out = append(out, ulimit{Name: "nofile", Soft: l.Files, Hard: l.Files})
	}
	if l.Processes > 0 {
		out = append(out, ulimit{Name: "nproc", Soft: l.Processes, Hard: l.Processes})
	}
	if l.FileSize > 0 {
		out = append(out, ulimit{Name: "fsize", Soft: l.FileSize, Hard: l.FileSize})
	}
	return out
}
