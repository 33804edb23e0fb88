package doctor

import (
	"context"
	"errors"

	"pinfold/policy"
)

const limitsRefused = "policies with limits are refused: "

// limitsPolicy asks for all that needs a cgroup.
const limitsPolicy = `{"version": 1, "limits": {"memory": "1g", "pids": 512, "cpus": 1}, "require": ["cgroup_limits"]}`

// checkCgroup: limits need a cgroup that the caller may make. What a launch
// with limits would look at is asked first, and then such a launch is tried:
// a systemd that is there may still refuse a scope.
func checkCgroup(ctx context.Context, h *Host) Result {
	seen, err := h.cgroups()
	switch {
	case err != nil:
		return unknown("cgroup_unknown", err.Error())
	case h.Probe == nil:
		return unknown("cgroup_unknown", seen+"; not asked whether one can be made")
	}
	err = h.Probe.Limits()
	if err == nil && h.first == "" {
		err = h.Probe.Launch(ctx, limitsPolicy)
	}
	return h.limitsResult(seen, err)
}

// limitsResult is a warning only: policies without limits need no cgroup. Any
// other refusal is not about limits, and the last rows show it.
func (h *Host) limitsResult(seen string, err error) Result {
	r, isRefusal := errors.AsType[*policy.Refusal](err)
	switch {
	case err == nil || isRefusal && r.Code != "limit_unavailable":
		return ok(seen)
	case isRefusal && h.Inside():
		return warn("limit_unavailable", limitsRefused+r.Why, words(Outside))
	case isRefusal && h.container() != "":
		return warn("limit_unavailable", limitsRefused+r.Why,
			words("limit the container itself (--cpus, --memory, --pids-limit), or start it with a cgroup that pinfold may write, named with --cgroup PATH"))
	case isRefusal:
		return warn("limit_unavailable", limitsRefused+r.Why, words(oneLine(r.Fix)))
	}
	return unknown("cgroup_unknown", seen+"; "+err.Error())
}

// cgroups names what is mounted.
func (h *Host) cgroups() (string, error) {
	controllers, err := h.read("sys/fs/cgroup/cgroup.controllers")
	switch {
	case err == nil && h.exists("run/systemd/system"):
		return "cgroup v2 (" + controllers + "), systemd", nil
	case err == nil:
		return "cgroup v2 (" + controllers + ")", nil
	case !isNotExist(err):
		return "", err
	case h.exists("sys/fs/cgroup/memory"):
		return "cgroup v1", nil
	}
	return "no cgroups", nil
}
