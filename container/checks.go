package container

import (
	"fmt"
	"slices"
	"strings"

	"pinfold/policy"
)

// DefaultPIDs bounds the processes and threads where the policy doesn't,
// DefaultTmp the bytes in each private directory.
const (
	DefaultPIDs = 4096
	DefaultTmp  = 1 << 30
)

// checkImage refuses an image that isn't pinned, or isn't for this machine.
func checkImage(img Image, info Info) error {
	switch {
	case !IsPinned(img.Name):
		return &policy.Refusal{
			Reason: policy.Denied, Code: "image_not_pinned", Subject: img.Name, Rule: "container.image",
			Why: fmt.Sprintf("cannot use image %q: a name can mean another image tomorrow", img.Name),
			Fix: fmt.Sprintf(`pin what it means now: "image": %q`, pinOf(img)),
		}
	case img.OS != "" && img.OS != "linux" || img.Arch != "" && img.Arch != info.Arch:
		return &policy.Refusal{
			Reason: policy.Unavailable, Code: "image_platform", Subject: img.Name, Rule: "container.image",
			Why: fmt.Sprintf("cannot use image %q: it is for %s/%s, and this machine is linux/%s", img.Name, img.OS, img.Arch, info.Arch),
			Fix: "use an image for linux/" + info.Arch,
		}
	}
	return nil
}

// IsPinned reports whether a name can only ever mean one image: an ID, or a
// name with a digest.
func IsPinned(name string) bool {
	if IsImageID(name) {
		return true
	}
	repo, digest, ok := strings.Cut(name, "@")
	return ok && repo != "" && IsImageID(digest)
}

func pinOf(img Image) string {
	if len(img.Digests) > 0 && !strings.HasPrefix(img.Digests[0], "localhost/") {
		return img.Digests[0]
	}
	return img.ID
}

// checkEngine refuses an engine whose containers can't be what is promised.
func checkEngine(info Info, o Options) error {
	switch {
	case info.Provider == "docker" && info.Rootless && o.UID == 0:
		return engineRefusal(info, "engine_user", "it is rootless, and its containers know no other user than its own", "run pinfold as that user")
	case slices.Contains(info.Security, "selinux"):
		return engineRefusal(info, "engine_selinux", "SELinux confines its containers, and would keep them from the sockets and directories they are given", "use the process tier")
	case o.Stub == "" || o.Handover == "" || o.Scratch == "" || o.Relays == "":
		return fmt.Errorf("internal error: a container without stub, hand-over or scratch directory")
	}
	return nil
}

func engineRefusal(info Info, code, why, fix string) error {
	return &policy.Refusal{Reason: policy.Unavailable, Code: code, Subject: info.Provider, Why: "cannot use " + info.Provider + ": " + why, Fix: fix}
}

// unbuilt is a field of a policy that this tier can't enforce.
type unbuilt struct {
	field string
	set   func(input) bool
	why   string
	fix   string
}

var unbuiltFields = []unbuilt{ //nolint:gochecknoglobals // a table
	{
		"network.mode", func(in input) bool { return in.Network.Mode == policy.ModeTransparent },
		"a container's connections go through the proxy", `use "mode": "auto" or "proxy"`,
	},
	{
		"network.expose", func(in input) bool { return len(in.Network.Expose) > 0 },
		"nothing carries a connection into a container's network yet", "leave the field out",
	},
}

// refuseUnbuilt refuses the first field that is set and can't be enforced.
func refuseUnbuilt(in input) error {
	for _, u := range unbuiltFields {
		if u.set(in) {
			return &policy.Refusal{
				Reason: policy.Unavailable, Code: "field_unavailable", Subject: u.field, Rule: in.position(u.field),
				Why: fmt.Sprintf("cannot enforce %s in a container: %s", u.field, u.why), Fix: u.fix,
			}
		}
	}
	return nil
}

// layers hold every container, by the names that "require" uses; but see
// layerState.
var layers = []string{"mountns", "pidns", "netns", "ipcns", "utsns", "cgroupns", "no_userns_inside", "no_capabilities", "no_new_privs", "seccomp"} //nolint:gochecknoglobals // a table

const layerOn = "on"

// layerState is whether a layer is in force. Podman takes docker's request for
// a cgroup namespace of the container's own, and makes none on cgroup v1.
func layerState(info Info, name string) string {
	if name == "cgroupns" && info.Provider == "podman" {
		return "off: podman leaves containers that it makes for docker's clients in the host's"
	}
	return layerOn
}

// checkRequire refuses a launch that insists on what a container doesn't have.
func checkRequire(in input, info Info) error {
	for _, name := range in.Require {
		if !slices.Contains(layers, name) || layerState(info, name) != layerOn {
			return &policy.Refusal{
				Reason: policy.Unavailable, Code: "requirement_unmet", Subject: name, Rule: in.position("require"),
				Why: fmt.Sprintf("cannot launch: the policy requires %s, which a container doesn't have", name),
				Fix: "use the process tier, or take it out of require",
			}
		}
	}
	return nil
}

// checkLimits refuses a limit that the engine would take and not enforce.
func checkLimits(in input, info Info) error {
	for _, l := range []struct {
		field    string
		set, can bool
	}{
		{"limits.cpus", in.Limits.CPUs != 0, info.CanLimit.CPU},
		{"limits.memory", in.Limits.Memory != 0, info.CanLimit.Memory && info.CanLimit.Swap},
		{"limits.pids", in.Limits.PIDs != 0, info.CanLimit.PIDs},
	} {
		if l.set && !l.can {
			return LimitRefusal(info, l.field, in.position(l.field), whyNoLimit(info))
		}
	}
	return nil
}

func whyNoLimit(info Info) string {
	if info.Rootless {
		return fmt.Sprintf("%s is rootless, and has no controller for it (cgroup v%d)", info.Provider, info.Cgroup)
	}
	return info.Provider + " has no controller for it here"
}

// LimitRefusal says that a limit can't be enforced.
func LimitRefusal(info Info, field, rule, why string) error {
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "limit_unavailable", Subject: field, Rule: rule,
		Why: fmt.Sprintf("cannot enforce %s: %s", field, why),
		Fix: "use an engine that runs as root, delegate the controller to the user (cgroup v2), or leave the limit out",
	}
}
