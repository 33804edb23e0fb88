package bwrap

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"pinfold/bwrap/cgroup"
	"pinfold/plan"
	"pinfold/policy"
	"pinfold/stub/wire"
)

// limitTexts are the limits as the plan has them: bytes, counts, durations.
func limitTexts(l policy.Limits) []plan.Limit {
	var list []plan.Limit
	add := func(name, value string) { list = append(list, plan.Limit{Name: name, Value: value}) }
	if l.CPUs != 0 {
		add("cpus", strconv.FormatFloat(l.CPUs, 'g', -1, 64))
	}
	for _, n := range []struct {
		name  string
		value int64
	}{{"memory", l.Memory}, {"pids", l.PIDs}, {"files", l.Files}, {"file_size", l.FileSize}, {"tmp", l.Tmp}} {
		if n.value != 0 {
			add(n.name, strconv.FormatInt(n.value, 10))
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"timeout", l.Timeout}, {"idle_timeout", l.IdleTimeout}} {
		if d.value != 0 {
			add(d.name, d.value.String())
		}
	}
	return list
}

// The resources of setrlimit(2) on Linux, whose numbers are the same on both
// architectures; this file is for every platform.
const (
	rlimitFileSize = 1
	rlimitFiles    = 7
)

// rlimits are the limits that the kernel keeps for each process by itself.
func rlimits(l policy.Limits) []wire.Rlimit {
	var list []wire.Rlimit
	if l.Files != 0 {
		list = append(list, wire.Rlimit{Resource: rlimitFiles, Soft: uint64(l.Files), Hard: uint64(l.Files)})
	}
	if l.FileSize != 0 {
		list = append(list, wire.Rlimit{Resource: rlimitFileSize, Soft: uint64(l.FileSize), Hard: uint64(l.FileSize)})
	}
	return list
}

// ownProcesses are bubblewrap's two, which are in the tree beside the
// command and don't count against it.
const ownProcesses = 2

// jobProcesses are the stub's threads, which stay where the command is the
// job of a terminal: a Go program of its kind has up to six.
const jobProcesses = 6

// treeLimits are the limits that hold for the tree as a whole.
func treeLimits(l policy.Limits, job bool) cgroup.Limits {
	t := cgroup.Limits{CPUs: l.CPUs, Memory: l.Memory, PIDs: l.PIDs}
	if t.PIDs != 0 {
		t.PIDs += ownProcesses
		if job {
			t.PIDs += jobProcesses
		}
	}
	return t
}

// bound notes the limits of a launch: it needs a cgroup for those of the tree,
// or since the policy insists, and then on every controller.
func (l *Launch) bound(in input) {
	l.Limits = in.Limits
	l.allControllers = slices.Contains(in.Require, "cgroup_limits")
	l.cgroup = l.allControllers || treeLimits(in.Limits, false).Any()
}

// unplaced is why there is no cgroup: a limit that can't be kept, or, where
// each of the policy's could be, what it requires beyond them.
func (l *Launch) unplaced(path string, err error) error {
	r, ok := errors.AsType[*policy.Refusal](err)
	if !ok || !l.allControllers || r.Code != "limit_unavailable" {
		return err
	}
	if own := treeLimits(l.Limits, false); own.Any() {
		if _, missed := cgroup.Find(own, cgroup.Options{Path: path}); missed != nil {
			return missed
		}
	}
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "requirement_unmet", Subject: "cgroup_limits", Rule: "require", Err: err,
		Why: `cannot meet requirement "cgroup_limits": ` + strings.TrimPrefix(r.Why, "cannot "), Fix: r.Fix,
	}
}

// PlaceLimits looks for the place where the launch's limits can be enforced,
// beneath the cgroup that path names, or where the caller's own rights reach.
// It makes nothing. A limit that can't be enforced is a refusal. [Start] does
// it for a launch that hasn't been placed. A path that names no cgroup is
// refused whether or not there is a limit.
func (l *Launch) PlaceLimits(path string) error {
	if path != "" {
		if err := cgroup.Check(cgroup.Options{Path: path}); err != nil {
			return err
		}
	}
	if !l.cgroup || l.place != nil {
		return nil
	}
	place, err := cgroup.Find(treeLimits(l.Limits, false), cgroup.Options{Path: path, All: l.allControllers})
	if err != nil {
		return l.unplaced(path, err)
	}
	l.place = place
	return nil
}
