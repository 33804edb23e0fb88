package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"pinfold/container"
	"pinfold/policy"
)

// The versions of the API that are asked for: cgroup namespaces came with
// 1.41 (docker 20.10), and newer engines drop what is older than 1.44.
const (
	leastAPI  = "1.41"
	newestAPI = "1.47"
)

// Engine is one docker or podman. Its methods may be called from several
// goroutines.
type Engine struct {
	name     string
	endpoint string
	podman   bool
	client   *client
	memory   string // the directory of what is remembered, "" for none

	// base is what the first greeting told, and isn't changed after.
	base container.Info

	once     sync.Mutex
	info     container.Info
	haveInfo bool
}

var _ container.Provider = (*Engine)(nil)

// Connect talks to the engine at an endpoint, "unix:///run/docker.sock", and
// refuses when nobody answers there, or another engine than the one named.
func Connect(ctx context.Context, name, endpoint string) (*Engine, error) {
	socket, ok := strings.CutPrefix(endpoint, "unix://")
	if !ok || !strings.HasPrefix(socket, "/") {
		return nil, remoteRefusal(name, endpoint)
	}
	e := &Engine{name: name, endpoint: endpoint, client: newClient(socket)}
	if err := e.negotiate(ctx); err != nil {
		e.client.close()
		return nil, err
	}
	return e, nil
}

// Remember has what the engine takes long to say kept in a directory of ours,
// as [Choice.Memory] does.
func (e *Engine) Remember(dir string) { e.memory = dir }

// negotiate settles the version and finds out who answers. A greeting is
// enough for that, and takes a millisecond; podman needs most of a second to
// say all its versions.
func (e *Engine) negotiate(ctx context.Context) error {
	resp, err := e.client.do(ctx, request{method: "GET", path: "/_ping", bare: true})
	if err == nil {
		err = resp.Body.Close()
	}
	if err != nil {
		return e.unavailable("engine_unreachable", fmt.Sprintf("cannot reach %s at %s: %v", e.name, e.endpoint, err), startHint(e.name), err)
	}
	version := resp.Header.Get("Libpod-Api-Version")
	e.podman = version != ""
	if e.podman != (e.name == Podman) {
		return e.unavailable("engine_unexpected", fmt.Sprintf("cannot use %s as %s: another engine answers there", e.endpoint, e.name),
			`name the engine in "container": {"runtime": …}, or point DOCKER_HOST or CONTAINER_HOST at the right socket`, nil)
	}
	if !e.podman {
		_, version, _ = strings.Cut(strings.TrimSuffix(resp.Header.Get("Server"), " (linux)"), "/")
	}
	api := resp.Header.Get("Api-Version")
	if compareVersions(api, newestAPI) > 0 {
		api = newestAPI
	}
	if compareVersions(api, leastAPI) < 0 {
		return e.unavailable("engine_version", fmt.Sprintf("cannot use %s %s: it speaks the API up to %q, wanted %s or newer", e.name, version, api, leastAPI),
			"install docker 20.10 or newer, or podman 4 or newer", nil)
	}
	e.client.prefix = "/v" + api
	e.base = container.Info{Provider: e.name, Endpoint: e.endpoint, Version: version, API: api}
	return nil
}

func (e *Engine) unavailable(code, why, fix string, err error) error {
	return &policy.Refusal{Reason: policy.Unavailable, Code: code, Subject: e.name, Why: why, Fix: fix, Err: err}
}

func startHint(name string) string {
	if name == Podman {
		return "podman system service --time=0, or systemctl --user enable --now podman.socket; or PINFOLD_DISABLE_CONTAINER=1 for the process tier"
	}
	return "start it (systemctl start docker), or join its group; or PINFOLD_DISABLE_CONTAINER=1 for the process tier"
}

func remoteRefusal(name, endpoint string) error {
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "engine_remote", Subject: endpoint,
		Why: fmt.Sprintf("cannot use %s at %q: only an engine on this machine, by its unix socket, can be given mounts and a supervisor", name, endpoint),
		Fix: `use a context of this machine ("container": {"context": "default"}), or unset DOCKER_HOST`,
	}
}

// compareVersions compares "1.41" and the like by number. What is no number
// counts as 0.
func compareVersions(a, b string) int {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(x), len(y)) {
		if d := part(x, i) - part(y, i); d != 0 {
			return d
		}
	}
	return 0
}

func part(p []string, i int) int {
	if i >= len(p) {
		return 0
	}
	n, err := strconv.Atoi(p[i])
	if err != nil {
		return 0
	}
	return n
}

// Name is "docker" or "podman".
func (e *Engine) Name() string { return e.name }

// Close lets connections go.
func (e *Engine) Close() error {
	e.client.close()
	return nil
}

// Info asks the engine about itself, and doesn't ask again once it answered.
func (e *Engine) Info(ctx context.Context) (container.Info, error) {
	e.once.Lock()
	defer e.once.Unlock()
	if e.haveInfo {
		return e.info, nil
	}
	info, known := e.recall(ctx)
	if !known {
		var err error
		if info, err = e.ask(ctx); err != nil {
			return container.Info{}, fmt.Errorf("cannot ask %s about itself: %w", e.name, err)
		}
		e.remember(ctx, info)
	}
	e.info, e.haveInfo = info, true
	return info, nil
}

func (e *Engine) ask(ctx context.Context) (container.Info, error) {
	if e.podman {
		return e.askPodman(ctx)
	}
	var got infoResponse
	if err := e.client.call(ctx, request{method: "GET", path: "/info"}, &got); err != nil {
		return container.Info{}, err
	}
	if got.OSType != "linux" || got.ID == "" {
		return container.Info{}, fmt.Errorf("it runs %q containers, wanted linux", got.OSType)
	}
	info := e.base
	info.Identity = "docker:" + got.ID
	info.Version, info.Arch = cmp.Or(got.ServerVersion, info.Version), goarch(got.Architecture)
	info.Kernel, info.Runtime, info.LiveRestore = got.KernelVersion, got.DefaultRuntime, got.LiveRestoreEnabled
	info.Cgroup = cgroupVersion(got.CgroupVersion)
	for _, o := range got.SecurityOptions {
		name := optionName(o)
		switch name {
		case "rootless":
			info.Rootless = true
		case "userns":
			info.Remapped = true
		}
		info.Security = append(info.Security, name)
	}
	limits := got.CgroupDriver != "none"
	info.CanLimit = container.CanLimit{
		CPU: limits && got.CPUCfsQuota, Memory: limits && got.MemoryLimit,
		Swap: limits && got.SwapLimit, PIDs: limits && got.PidsLimit,
	}
	info.Warnings = got.Warnings
	return info, nil
}

// optionName reads "name=seccomp,profile=default" and plain "seccomp".
func optionName(o string) string {
	for f := range strings.SplitSeq(o, ",") {
		if name, ok := strings.CutPrefix(f, "name="); ok {
			return name
		}
	}
	name, _, _ := strings.Cut(o, ",")
	return name
}

// goarch is a machine's name as Go has it; docker says what uname(2) does.
func goarch(machine string) string {
	switch machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return machine
}

func cgroupVersion(v string) int {
	if strings.TrimPrefix(v, "v") == "2" {
		return 2
	}
	return 1
}

var errNoIdentity = errors.New("it doesn't say where its storage is")
