package cgroup

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// hierarchy is one mounted tree of cgroups.
type hierarchy struct {
	mount       string // where
	root        string // which part of the tree shows there
	v2          bool
	controllers []string // version 1: of the mount; version 2 says by file
	self        string   // the caller's own cgroup, as /proc/self/cgroup has it
}

// hierarchies reads what is mounted where, and where the caller is in it.
func hierarchies(k Kernel) ([]hierarchy, error) {
	mounts, err := k.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("cannot read the mount table: %w", err)
	}
	own, err := k.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("cannot read this process's cgroups: %w", err)
	}
	paths := parseSelf(string(own))
	var list []hierarchy
	for line := range strings.Lines(string(mounts)) {
		h, ok := parseMount(strings.TrimSuffix(line, "\n"))
		if !ok {
			continue
		}
		key := ""
		if !h.v2 && len(h.controllers) > 0 {
			key = h.controllers[0]
		}
		self, known := paths[key]
		if known && (h.v2 || len(h.controllers) > 0) {
			h.self = self
			list = append(list, h)
		}
	}
	return list, nil
}

// parseSelf reads "4:memory:/a/b" and "0::/a/b" lines, cgroups(7): the path by
// controller, version 2's by "".
func parseSelf(text string) map[string]string {
	paths := map[string]string{}
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 {
			continue
		}
		for _, c := range strings.Split(fields[1], ",") {
			if !strings.HasPrefix(c, "name=") {
				paths[c] = fields[2]
			}
		}
	}
	return paths
}

// parseMount reads one line of mountinfo (proc_pid_mountinfo(5)):
//
//	36 35 0:29 /root /mount rw,relatime - cgroup cgroup rw,cpu,cpuacct
func parseMount(line string) (h hierarchy, ok bool) {
	head, tail, found := strings.Cut(line, " - ")
	fields, ends := strings.Fields(head), strings.Fields(tail)
	if !found || len(fields) < 6 || len(ends) < 3 {
		return h, false
	}
	h.root, h.mount = unescape(fields[3]), unescape(fields[4])
	switch ends[0] {
	case "cgroup2":
		h.v2 = true
		return h, true
	case "cgroup":
	default:
		return h, false
	}
	for _, option := range strings.Split(ends[2], ",") {
		if slices.Contains([]string{cpu, cpuacct, memory, pids, freezer}, option) {
			h.controllers = append(h.controllers, option)
		}
	}
	return h, true
}

// unescape undoes the octal escapes of blanks in mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// at is the directory of a cgroup of the hierarchy, where it is mounted. A
// cgroup outside of what the mount shows isn't there.
func (h hierarchy) at(cgroup string) (string, bool) {
	cgroup = path.Clean("/" + cgroup)
	switch {
	case h.root == "/":
		return path.Join(h.mount, cgroup), true
	case cgroup == h.root:
		return h.mount, true
	case strings.HasPrefix(cgroup, h.root+"/"):
		return path.Join(h.mount, strings.TrimPrefix(cgroup, h.root)), true
	}
	return "", false
}

// named is the directory that the caller's path means in this hierarchy: a
// directory beneath any cgroup mount is taken by its name in the tree.
func (h hierarchy) named(all []hierarchy, p string) string {
	p = path.Clean(p)
	for _, other := range all {
		if rest, ok := strings.CutPrefix(p, other.mount); ok && (rest == "" || rest[0] == '/') {
			return path.Join(h.mount, rest)
		}
	}
	return path.Join(h.mount, p)
}
