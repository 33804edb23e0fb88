package engine

import (
	"cmp"
	"context"

	"pinfold/container"
)

// askPodman asks through podman's own API: what the docker-like one calls its
// ID is made up anew for each call. Where the storage lies, and which
// directory that is, tells one podman from another and a wiped one from the
// one before.
func (e *Engine) askPodman(ctx context.Context) (container.Info, error) {
	var got libpodInfo
	if err := e.client.call(ctx, request{method: "GET", path: "/v4.0.0/libpod/info", bare: true}, &got); err != nil {
		return container.Info{}, err
	}
	if got.Store.GraphRoot == "" {
		return container.Info{}, errNoIdentity
	}
	id, err := directoryID(got.Store.GraphRoot)
	if err != nil {
		return container.Info{}, err
	}
	info := e.base
	info.Version, info.Arch = cmp.Or(got.Version.Version, info.Version), goarch(got.Host.Arch)
	info.Identity = "podman:" + got.Store.GraphRoot + ":" + id
	info.Kernel, info.Runtime = got.Host.Kernel, got.Host.OCIRuntime.Name
	info.Rootless, info.Cgroup = got.Host.Security.Rootless, cgroupVersion(got.Host.CgroupVersion)
	if got.Host.Security.AppArmor {
		info.Security = append(info.Security, "apparmor")
	}
	if got.Host.Security.SELinux {
		info.Security = append(info.Security, "selinux")
	}
	info.CanLimit = podmanLimits(info, got.Host.CgroupControllers)
	// A container outlives podman's service: conmon holds it.
	info.LiveRestore = true
	return info, nil
}

// podmanLimits: a rootless podman sets no limit on cgroup v1, and says so in
// a warning alone; on v2 the controllers that were delegated to it.
func podmanLimits(info container.Info, controllers []string) container.CanLimit {
	if info.Cgroup == 1 {
		all := !info.Rootless
		return container.CanLimit{CPU: all, Memory: all, Swap: all, PIDs: all}
	}
	var can container.CanLimit
	for _, c := range controllers {
		switch c {
		case "cpu":
			can.CPU = true
		case "memory":
			can.Memory, can.Swap = true, true
		case "pids":
			can.PIDs = true
		}
	}
	return can
}
