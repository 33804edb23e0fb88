package doctor

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"pinfold/policy"
)

// refused turns a refusal of the real code into a row, with its own code and
// fix, so that doctor and wrap say the same.
func refused(err error, code, fix string) Result {
	if r, isRefusal := errors.AsType[*policy.Refusal](err); isRefusal {
		if r.Fix != "" && !strings.Contains(r.Fix, "pinfold doctor") {
			fix = r.Fix
		}
		return fail(r.Code, r.Why, fix)
	}
	if errors.Is(err, ErrNotThere) {
		return fail(code, err.Error(), fix)
	}
	return unknown(code, err.Error())
}

// checkState: records and trust live here, so nobody else may write it.
func checkState(_ context.Context, h *Host) Result {
	if h.State == "" {
		return unknown("state_unknown", "no state directory was named")
	}
	name := strings.TrimPrefix(h.State, "/")
	info, err := fs.Stat(h.Root, name)
	switch {
	case isNotExist(err):
		return h.stateParent(path.Dir(name))
	case err != nil:
		return unknown("state_unknown", err.Error())
	case !info.IsDir():
		return fail("state_not_directory", h.State+" is no directory", "mv "+h.State+" "+h.State+".old")
	case info.Mode().Perm()&0o022 != 0:
		return fail("state_shared", h.State+" can be written by others", "chmod 700 "+h.State)
	}
	return ok(h.State)
}

// stateParent: a directory that isn't there yet will be made.
func (h *Host) stateParent(name string) Result {
	for ; name != "." && name != "/"; name = path.Dir(name) {
		info, err := fs.Stat(h.Root, name)
		if isNotExist(err) {
			continue
		}
		if err != nil || !info.IsDir() {
			return fail("state_not_makeable", "/"+name+" is in the way of "+h.State, "pinfold --state DIR …")
		}
		break
	}
	return ok(h.State + " will be made")
}

// checkPolicies lists what discovery found.
func checkPolicies(_ context.Context, h *Host) Result {
	var seen, untrusted []string
	for _, p := range h.Policies {
		switch {
		case p.Used:
			seen = append(seen, p.Path+" (used)")
		case !p.Trusted:
			untrusted = append(untrusted, p.Path)
		default:
			seen = append(seen, p.Path)
		}
	}
	if len(untrusted) > 0 {
		return warn("policy_untrusted", "not used, since nobody trusted it: "+strings.Join(untrusted, ", "), "pinfold trust "+untrusted[0])
	}
	if len(seen) == 0 {
		return ok("none; the built-in policy writes the workspace and has no network")
	}
	return ok(strings.Join(seen, ", "))
}

// checkShadows: two programs of one name on PATH surprise people.
func checkShadows(_ context.Context, h *Host) Result {
	var twice []string
	for _, name := range []string{"pinfold", "bwrap"} {
		var found []string
		for _, dir := range h.Path {
			p := path.Join(dir, name)
			if info, err := fs.Stat(h.Root, strings.TrimPrefix(p, "/")); err == nil && info.Mode()&0o111 != 0 {
				found = append(found, p)
			}
		}
		if len(found) > 1 && !sameTree(found) {
			twice = append(twice, strings.Join(found, " before "))
		}
	}
	if len(twice) > 0 {
		return warn("shadowed", strings.Join(twice, "; "), "")
	}
	return ok("nothing on PATH hides another")
}

// sameTree: /bin and /usr/bin are one directory on merged systems.
func sameTree(paths []string) bool {
	for _, p := range paths {
		if strings.TrimPrefix(p, "/usr") != strings.TrimPrefix(paths[0], "/usr") {
			return false
		}
	}
	return true
}

// checkCgroup: limits need a subtree that the caller may write.
func checkCgroup(_ context.Context, h *Host) Result {
	controllers, err := h.read("sys/fs/cgroup/cgroup.controllers")
	switch {
	case isNotExist(err):
		return h.cgroupV1()
	case err != nil:
		return unknown("cgroup_unknown", err.Error())
	case h.UID == 0:
		return ok("cgroup v2 (" + controllers + ")")
	case h.exists("run/systemd/system"):
		return ok("cgroup v2 (" + controllers + "); systemd can delegate a scope to a user")
	}
	return warn("cgroup_not_delegated", "cgroup v2 without systemd: nothing is delegated to ordinary users, so policies with limits are refused",
		"sudo mkdir /sys/fs/cgroup/pinfold && sudo chown -R $USER /sys/fs/cgroup/pinfold")
}

func (h *Host) cgroupV1() Result {
	for _, c := range []string{"memory", "cpu", "pids"} {
		if !h.exists("sys/fs/cgroup/" + c) {
			return warn("cgroup_missing", "no cgroup controllers: policies with limits are refused", "boot with systemd.unified_cgroup_hierarchy=1")
		}
	}
	if h.UID != 0 {
		return warn("cgroup_v1_user", "cgroup v1: only root can limit, so policies with limits are refused", "boot with systemd.unified_cgroup_hierarchy=1")
	}
	return ok("cgroup v1 (memory, cpu, pids)")
}

// Launch is the real thing: true under a policy document, by the code of wrap.
func Launch(name, document string) Check {
	return Check{Name: name, Run: func(ctx context.Context, h *Host) Result {
		if h.Probe == nil {
			return unknown("launch_unknown", "nothing was started")
		}
		if err := h.Probe.Launch(ctx, document); err != nil {
			return refused(err, "launch_failed", "")
		}
		return ok("true ran")
	}}
}

// Checks are the rows, in order.
func Checks() []Check {
	return []Check{
		{"system", checkSystem},
		{"kernel", checkKernel},
		{"architecture", checkArchitecture},
		{"container", checkContainer},
		{"bubblewrap", checkBubblewrap},
		{"user namespaces", checkUserNamespaces},
		{"namespaces", checkNamespaces},
		{"fresh /proc", checkProc},
		{"system calls", checkSyscalls},
		{"landlock", checkLandlock},
		{"yama", checkYama},
		{"cgroups", checkCgroup},
		{"terminal", checkTIOCSTI},
		{"WSL interop", checkWSLInterop},
		{"state directory", checkState},
		{"policy files", checkPolicies},
		{"PATH", checkShadows},
		Launch("launch: empty policy", `{"version": 1}`),
		Launch("launch: grants", launchPolicy),
	}
}

// launchPolicy uses a write grant, a deny and a host.
const launchPolicy = `{"version": 1, "write": ["{workspace}"], "read": {"deny": ["{workspace}/denied"]}, "network": {"allow": ["example.com:443"]}}`
