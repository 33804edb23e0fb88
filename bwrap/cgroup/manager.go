package cgroup

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Manager makes a cgroup for processes, as systemd does.
type Manager interface {
	// Running reports whether there is one to ask.
	Running() bool
	// StartScope puts processes into a new scope of this name with these
	// limits, and returns once they are there.
	StartScope(ctx context.Context, unit string, l Limits, processes []int) error
}

// Fleeting reports whether the cgroup goes with its last process, as a scope
// of systemd's does: what it has used must be read before.
func (t *Tree) Fleeting() bool { return t.manager != nil }

// startScope has the manager make the cgroup. What it made is looked at: a
// manager that leaves a limit out (a controller that wasn't delegated to it)
// says nothing.
func (t *Tree) startScope(ctx context.Context, processes []int) error {
	limit := t.limitOf(part{controllers: []string{memory, cpu, pids}})
	unit := t.name + ".scope"
	if err := t.manager.StartScope(ctx, unit, t.limits, processes); err != nil {
		return unavailable(limit, fmt.Sprintf("systemd doesn't make a scope: %v", err), fixDelegate)
	}
	all, err := hierarchies(t.kernel)
	if err != nil {
		return err
	}
	dir, err := t.scopeDir(all, unit, processes)
	if err != nil {
		return unavailable(limit, err.Error(), fixDelegate)
	}
	q := part{parent: dir, v2: true, controllers: []string{cpu, memory, pids}}
	t.parts = append(t.parts, q)
	return t.check(q)
}

// scopeDir is the scope's directory, where every process must be by now.
func (t *Tree) scopeDir(all []hierarchy, unit string, processes []int) (string, error) {
	i := slices.IndexFunc(all, func(h hierarchy) bool { return h.v2 })
	if i < 0 {
		return "", fmt.Errorf("the unified hierarchy isn't mounted")
	}
	found := ""
	for _, pid := range processes {
		text, err := t.kernel.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
		if err != nil {
			return "", err
		}
		where := parseSelf(string(text))[""]
		dir, ok := all[i].at(where)
		if !ok || path.Base(where) != unit || found != "" && found != dir {
			return "", fmt.Errorf("systemd left process %d in %q", pid, where)
		}
		found = dir
	}
	return found, nil
}

// check reads the limits back: each must be there, and no looser.
func (t *Tree) check(q part) error {
	for _, s := range t.limits.settings(q) {
		text, err := t.kernel.ReadFile(q.parent + "/" + s.file)
		if s.optional {
			continue
		}
		if err == nil && !atMost(strings.Fields(string(text)), strings.Fields(s.value)) {
			err = fmt.Errorf("it is %q, wanted %q", strings.TrimSpace(string(text)), s.value)
		}
		if err != nil {
			return unavailable(s.limit, fmt.Sprintf("%s: %v", s.file, err), fixDelegate)
		}
	}
	return nil
}

// atMost compares "N", or a quota and its period, with what was asked for.
// The kernel rounds, by less than a hundredth.
func atMost(got, wanted []string) bool {
	if len(got) != len(wanted) {
		return false
	}
	g, err := strconv.ParseFloat(got[0], 64)
	w, err2 := strconv.ParseFloat(wanted[0], 64)
	if err != nil || err2 != nil {
		return false
	}
	if len(got) == 2 {
		gp, err := strconv.ParseFloat(got[1], 64)
		wp, err2 := strconv.ParseFloat(wanted[1], 64)
		if err != nil || err2 != nil || gp == 0 {
			return false
		}
		g, w = g/gp, w/wp
	}
	return g <= w*1.01
}
