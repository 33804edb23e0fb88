package cgroup

import (
	"fmt"
	"slices"
	"strings"
)

// Place is where a tree of processes can be bounded.
type Place struct {
	kernel  Kernel
	parts   []part
	manager Manager // where systemd makes the cgroup
}

// part is one directory to make a cgroup in.
type part struct {
	parent      string
	v2          bool
	controllers []string // to be set or read there
}

// Find looks for a place where the limits can be enforced; it makes nothing.
// The error is a refusal that names the first limit that can't be.
func Find(l Limits, o Options) (*Place, error) {
	k := o.Kernel
	if k == nil {
		k = system{}
	}
	needs := l.needs(o.All)
	all, err := hierarchies(k)
	if err != nil {
		return nil, unavailable(firstOf(needs), err.Error(), fixUnified)
	}
	p := &Place{kernel: k}
	for _, h := range all {
		if h.v2 {
			if err := p.findV2(h, all, needs, o); err != nil {
				return nil, err
			}
		}
	}
	for _, c := range []string{cpu, memory, pids} {
		limit, needed := needs[c]
		if p.has(c) || (!needed && p.manager != nil) {
			continue
		}
		if err := p.findV1(c, all, o); err != nil && needed {
			return nil, unavailable(limit, err.Error(), fixUnified)
		}
	}
	p.addExtras(all, o)
	return p, nil
}

func firstOf(needs map[string]string) string {
	for _, c := range []string{memory, cpu, pids} {
		if limit := needs[c]; limit != "" {
			return limit
		}
	}
	return "limits"
}

func (p *Place) has(controller string) bool {
	return slices.ContainsFunc(p.parts, func(q part) bool { return slices.Contains(q.controllers, controller) }) ||
		p.manager != nil
}

// findV1 adds the caller's own cgroup of one controller, or the named one.
func (p *Place) findV1(controller string, all []hierarchy, o Options) error {
	i := slices.IndexFunc(all, func(h hierarchy) bool { return !h.v2 && slices.Contains(h.controllers, controller) })
	if i < 0 {
		return fmt.Errorf("the kernel's %s controller isn't mounted", controller)
	}
	h := all[i]
	dir, ok := h.at(h.self)
	if !ok {
		dir = h.mount
	}
	if o.Path != "" {
		dir = h.named(all, o.Path)
	}
	if !p.kernel.Writable(dir) {
		return fmt.Errorf("%q can't be written", dir)
	}
	for i := range p.parts {
		if p.parts[i].parent == dir {
			p.parts[i].controllers = append(p.parts[i].controllers, controller)
			return nil
		}
	}
	p.parts = append(p.parts, part{parent: dir, controllers: []string{controller}})
	return nil
}

// addExtras takes along what only counts, and what stops a tree at once, if
// that is to be had in version 1.
func (p *Place) addExtras(all []hierarchy, o Options) {
	if !slices.ContainsFunc(p.parts, func(q part) bool { return !q.v2 }) {
		return
	}
	for _, c := range []string{cpuacct, freezer} {
		_ = p.findV1(c, all, o)
	}
}

// findV2 adds a place of the unified hierarchy for the controllers that it
// has. Those that are bound to version 1 hierarchies don't show there.
func (p *Place) findV2(h hierarchy, all []hierarchy, needs map[string]string, o Options) error {
	available, err := p.kernel.ReadFile(h.mount + "/cgroup.controllers")
	if err != nil {
		return unavailable(firstOf(needs), err.Error(), fixDelegate)
	}
	var use []string
	for _, c := range []string{cpu, memory, pids} {
		if slices.Contains(strings.Fields(string(available)), c) {
			use = append(use, c)
		}
	}
	needed := slices.DeleteFunc(slices.Clone(use), func(c string) bool { return needs[c] == "" })
	if len(needed) == 0 {
		return nil
	}
	dir, err := p.parentV2(h, all, o)
	if err != nil {
		return unavailable(needs[needed[0]], err.Error(), fixDelegate)
	}
	if dir != "" {
		p.parts = append(p.parts, part{parent: dir, v2: true, controllers: use})
	}
	return nil
}

// parentV2 chooses where the cgroup is made, or the manager that makes it.
func (p *Place) parentV2(h hierarchy, all []hierarchy, o Options) (string, error) {
	if o.Path != "" {
		dir := h.named(all, o.Path)
		if !p.kernel.Writable(dir) {
			return "", fmt.Errorf("%q can't be written", dir)
		}
		return dir, nil
	}
	m := o.Manager
	if m == nil {
		m = systemd()
	}
	if m != nil && m.Running() {
		p.manager = m
		return "", nil
	}
	if !p.kernel.Writable(h.mount) {
		return "", fmt.Errorf("no cgroup is delegated to this user: %q can't be written, and there is no systemd", h.mount)
	}
	return h.mount, nil
}
