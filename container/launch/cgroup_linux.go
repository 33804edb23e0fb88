package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"

	"pinfold/container"
	"pinfold/plan"
	"pinfold/policy"
)

// cgroups are the directories of a container's cgroup, one for each
// controller of version 1, "" for version 2's, cgroups(7).
type cgroups map[string]string

// cgroupsOf finds them for a process. What isn't mounted here isn't there.
func cgroupsOf(pid int) (cgroups, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return nil, fmt.Errorf("cannot find the container's cgroup: %w", err)
	}
	mounts, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		return m.FSType != "cgroup" && m.FSType != "cgroup2", false
	})
	if err != nil {
		return nil, fmt.Errorf("cannot find the cgroups: %w", err)
	}
	return findCgroups(string(b), mounts), nil
}

func findCgroups(text string, mounts []*mountinfo.Info) cgroups {
	out := cgroups{}
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for _, controller := range strings.Split(parts[1], ",") {
			if dir := mountedAt(controller, parts[2], mounts); dir != "" {
				out[controller] = dir
			}
		}
	}
	return out
}

// mountedAt is where a cgroup shows.
func mountedAt(controller, path string, mounts []*mountinfo.Info) string {
	for _, m := range mounts {
		if (controller == "") != (m.FSType == "cgroup2") {
			continue
		}
		if controller != "" && !slices.Contains(strings.Split(m.VFSOptions, ","), controller) {
			continue
		}
		rel, ok := path, true
		if m.Root != "/" {
			rel, ok = strings.CutPrefix(path, m.Root)
		}
		if ok {
			return filepath.Join(m.Mountpoint, rel)
		}
	}
	return ""
}

// number reads a file of the controller's: name in version 1, name2 in
// version 2. "max" and what has no file there is unlimited, and reads as -1.
func (c cgroups) number(controller, name, name2 string) (float64, error) {
	text, err := c.text(controller, name, name2)
	if errors.Is(err, fs.ErrNotExist) || text == "max" {
		return -1, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("cannot read the container's %s: %w", controller, err)
	}
	return n, nil
}

func (c cgroups) text(controller, name, name2 string) (string, error) {
	dir, file := c[controller], name
	if dir == "" {
		dir, file = c[""], name2
	}
	if dir == "" || file == "" {
		return "", fs.ErrNotExist
	}
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return "", fmt.Errorf("cannot read the container's %s: %w", controller, err)
	}
	return strings.TrimSpace(string(b)), nil
}

// cpus is how many processors' time there is for the container; -1 is all.
func (c cgroups) cpus() (float64, error) {
	if c["cpu"] != "" {
		quota, err := c.number("cpu", "cpu.cfs_quota_us", "")
		period, perr := c.number("cpu", "cpu.cfs_period_us", "")
		if err = errors.Join(err, perr); err != nil || quota <= 0 || period <= 0 {
			return -1, err
		}
		return quota / period, nil
	}
	text, err := c.text("cpu", "", "cpu.max")
	if errors.Is(err, fs.ErrNotExist) {
		return -1, nil
	}
	if err != nil {
		return 0, err
	}
	first, second, _ := strings.Cut(text, " ")
	quota, err := strconv.ParseFloat(first, 64)
	period, perr := strconv.ParseFloat(second, 64)
	if err != nil || perr != nil || period <= 0 {
		return -1, nil //nolint:nilerr // "max 100000"
	}
	return quota / period, nil
}

// swapOff reports whether the container gets no swap at all.
func (c cgroups) swapOff(memory float64) (bool, error) {
	if c["memory"] != "" {
		both, err := c.number("memory", "memory.memsw.limit_in_bytes", "")
		return both >= 0 && both <= memory, err
	}
	swap, err := c.number("memory", "", "memory.swap.max")
	return swap == 0, err
}

// checkLimits reads back from the kernel what the engine was asked for, while
// the command waits: an engine that only warns about a limit must not pass for
// one that keeps it.
func checkLimits(pid int, info container.Info, want container.Limits) error {
	c, err := cgroupsOf(pid)
	if err != nil {
		return err
	}
	return c.check(info, want)
}

func (c cgroups) check(info container.Info, want container.Limits) error {
	memory, err := c.number("memory", "memory.limit_in_bytes", "memory.max")
	cpus, cerr := c.cpus()
	pids, perr := c.number("pids", "pids.max", "pids.max")
	off, serr := c.swapOff(memory)
	if err := errors.Join(err, cerr, perr, serr); err != nil {
		return err
	}
	const rounding = 0.02 // of a processor: engines count in microseconds
	for _, l := range []struct {
		field string
		set   bool
		holds bool
		got   float64
	}{
		{"limits.memory", want.Memory != 0, memory > 0 && memory <= float64(want.Memory), memory},
		{"limits.memory", want.Memory != 0, off, memory},
		{"limits.cpus", want.CPUs != 0, cpus > 0 && cpus <= want.CPUs+rounding, cpus},
		{"limits.pids", want.PIDs != 0, pids > 0 && pids <= float64(want.PIDs), pids},
	} {
		if l.set && !l.holds {
			return unenforced(info, l.field, l.got)
		}
	}
	return nil
}

func unenforced(info container.Info, field string, got float64) error {
	value := "none at all"
	if got >= 0 && got < math.MaxInt64/2 {
		value = strconv.FormatFloat(got, 'f', -1, 64)
	}
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "limit_unenforced", Subject: field, Rule: field,
		Why: fmt.Sprintf("cannot enforce %s: %s took it, and the kernel has %s", field, info.Provider, value),
		Fix: "use an engine that may set cgroups (as root, or with a delegated cgroup v2), or leave the limit out",
	}
}

// usage reads what the container has used so far. What a kernel doesn't count
// stays zero.
func (c cgroups) usage() plan.Usage {
	u := plan.Usage{Source: "cgroup"}
	positive := func(n float64, err error) float64 {
		if err != nil || n < 0 {
			return 0
		}
		return n
	}
	if c["cpuacct"] != "" {
		u.CPUMS = positive(c.number("cpuacct", "cpuacct.usage", "")) / float64(time.Millisecond)
	} else if stat, err := c.stat("cpu", "", "cpu.stat"); err == nil {
		u.CPUMS = stat["usage_usec"] / 1000
	}
	u.PeakMemory = int64(positive(c.number("memory", "memory.max_usage_in_bytes", "memory.peak")))
	u.Processes = int64(positive(c.number("pids", "", "pids.peak")))
	return u
}

// outOfMemory is how often the kernel killed a process for its memory.
func (c cgroups) outOfMemory() int64 {
	stat, err := c.stat("memory", "memory.oom_control", "memory.events")
	if err != nil {
		return 0
	}
	return int64(stat["oom_kill"])
}

// pidsRefused is how often a fork failed for the bound on processes.
func (c cgroups) pidsRefused() int64 {
	stat, err := c.stat("pids", "pids.events", "pids.events")
	if err != nil {
		return 0
	}
	return int64(stat["max"])
}

// throttled is in how many periods something was held back, cpu.stat.
func (c cgroups) throttled() int64 {
	stat, err := c.stat("cpu", "cpu.stat", "cpu.stat")
	if err != nil {
		return 0
	}
	return int64(stat["nr_throttled"])
}

// stat reads a file of names and numbers.
func (c cgroups) stat(controller, name, name2 string) (map[string]float64, error) {
	text, err := c.text(controller, name, name2)
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			out[key] = n
		}
	}
	return out, nil
}
