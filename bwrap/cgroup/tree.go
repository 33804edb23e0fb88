package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Tree is one bounded tree of processes.
type Tree struct {
	kernel Kernel
	limits Limits
	name   string
	parts  []part // with the directory that was made as parent
	// manager makes the cgroup when the first process is attached.
	manager Manager
}

// Make makes the cgroups and sets their limits, of the same kinds that the
// place was looked for. Nothing is in them yet.
func (p *Place) Make(l Limits) (*Tree, error) {
	start, err := startOf(p.kernel, strconv.Itoa(os.Getpid()))
	if err != nil {
		return nil, unavailable("limits", err.Error(), fixDelegate)
	}
	name := Name(start)
	t := &Tree{kernel: p.kernel, limits: l, name: name, manager: p.manager}
	for _, q := range p.parts {
		p.sweep(q.parent)
		if err := t.makePart(q, name); err != nil {
			return nil, errors.Join(err, t.Remove(context.Background()))
		}
	}
	return t, nil
}

func (t *Tree) makePart(q part, name string) error {
	if q.v2 {
		if err := t.delegate(q); err != nil {
			return err
		}
	}
	dir := path.Join(q.parent, name)
	if err := t.kernel.Mkdir(dir); err != nil {
		return unavailable(t.limitOf(q), err.Error(), fixUnified)
	}
	q.parent = dir
	t.parts = append(t.parts, q)
	return t.set(q)
}

// delegate hands controllers to the cgroups beneath the parent.
func (t *Tree) delegate(q part) error {
	file := q.parent + "/cgroup.subtree_control"
	now, err := t.kernel.ReadFile(file)
	if err != nil {
		return unavailable(t.limitOf(q), err.Error(), fixDelegate)
	}
	for _, c := range q.controllers {
		if slices.Contains(strings.Fields(string(now)), c) {
			continue
		}
		err := t.kernel.WriteFile(file, "+"+c)
		if err != nil && t.limits.needs(false)[c] != "" {
			return unavailable(t.limits.needs(false)[c], fmt.Sprintf("the %s controller can't be handed on: %v", c, err), fixDelegate)
		}
	}
	return nil
}

// limitOf is the limit to name where a part fails as a whole.
func (t *Tree) limitOf(q part) string {
	needs := t.limits.needs(false)
	for _, c := range q.controllers {
		if needs[c] != "" {
			return needs[c]
		}
	}
	return "limits"
}

// period is the kernel's own for a quota of processor time, in microseconds.
const period = 100_000

// setting is one file of a limit. Optional: kernels without it (no swap
// accounting) need none.
type setting struct {
	limit, file, value string
	optional           bool
}

func (l Limits) settings(q part) []setting {
	var list []setting
	quota := strconv.FormatInt(int64(l.CPUs*period+0.5), 10)
	bytes, most := strconv.FormatInt(l.Memory, 10), strconv.FormatInt(l.PIDs, 10)
	for _, c := range q.controllers {
		switch {
		case c == cpu && l.CPUs != 0 && q.v2:
			list = append(list, setting{"limits.cpus", "cpu.max", quota + " " + strconv.Itoa(period), false})
		case c == cpu && l.CPUs != 0:
			list = append(list, setting{"limits.cpus", "cpu.cfs_period_us", strconv.Itoa(period), false},
				setting{"limits.cpus", "cpu.cfs_quota_us", quota, false})
		case c == memory && l.Memory != 0 && q.v2:
			list = append(list, setting{"limits.memory", "memory.max", bytes, false},
				setting{"limits.memory", "memory.swap.max", "0", true})
		case c == memory && l.Memory != 0:
			list = append(list, setting{"limits.memory", "memory.limit_in_bytes", bytes, false},
				setting{"limits.memory", "memory.memsw.limit_in_bytes", bytes, true})
		case c == pids && l.PIDs != 0:
			list = append(list, setting{"limits.pids", "pids.max", most, false})
		}
	}
	return list
}

func (t *Tree) set(q part) error {
	for _, s := range t.limits.settings(q) {
		err := t.kernel.WriteFile(q.parent+"/"+s.file, s.value)
		if err == nil || s.optional && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		return unavailable(s.limit, fmt.Sprintf("%s: %v", s.file, err), fixUnified)
	}
	return nil
}

// Attach moves processes into the tree, each with all its threads. They must
// be waiting: what one forks meanwhile may be left behind.
func (t *Tree) Attach(ctx context.Context, processes ...int) error {
	if t.manager != nil {
		if err := t.startScope(ctx, processes); err != nil {
			return err
		}
	}
	for _, q := range t.parts {
		if t.manager != nil && q.v2 {
			continue // systemd has moved them
		}
		for _, pid := range processes {
			if err := t.kernel.WriteFile(q.parent+"/cgroup.procs", strconv.Itoa(pid)); err != nil {
				return unavailable(t.limitOf(q), fmt.Sprintf("a process can't be moved into %q: %v", q.parent, err), fixDelegate)
			}
		}
	}
	return nil
}

// Kill ends every process of the tree: by cgroup.kill (Linux 5.14), and where
// that isn't, frozen, so that nothing forks meanwhile, and one by one.
func (t *Tree) Kill() error {
	if t == nil {
		return nil
	}
	for _, q := range t.parts {
		if q.v2 && t.kernel.WriteFile(q.parent+"/cgroup.kill", "1") == nil {
			return nil
		}
	}
	thaw := t.freeze()
	defer thaw()
	for _, q := range t.parts {
		return t.killEach(q.parent)
	}
	return nil
}

func (t *Tree) freeze() (thaw func()) {
	for _, q := range t.parts {
		file, frozen, thawed := q.parent+"/freezer.state", "FROZEN", "THAWED"
		if q.v2 {
			file, frozen, thawed = q.parent+"/cgroup.freeze", "1", "0"
		} else if !slices.Contains(q.controllers, freezer) {
			continue
		}
		if t.kernel.WriteFile(file, frozen) == nil {
			return func() { _ = t.kernel.WriteFile(file, thawed) } // gone with the cgroup at the latest
		}
	}
	return func() {}
}

// killEach signals what is listed, again until a listing has nothing new:
// without a freezer, something may have forked.
func (t *Tree) killEach(dir string) error {
	seen := map[string]bool{}
	for {
		text, err := t.kernel.ReadFile(dir + "/cgroup.procs")
		if err != nil {
			return fmt.Errorf("cannot list the processes of %q: %w", dir, err)
		}
		fresh := false
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil && pid > 1 && !seen[field] {
				seen[field], fresh = true, true
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended by itself
			}
		}
		if !fresh {
			return nil
		}
	}
}

// removeWait bounds the time until a cgroup whose processes have been killed
// is empty.
const removeWait = 5 * time.Second

// Remove takes the cgroups away, with whatever still runs in them.
func (t *Tree) Remove(ctx context.Context) error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, removeWait)
	defer cancel()
	var errs []error
	for _, q := range t.parts {
		if err := t.removePart(ctx, q); err != nil && !t.scopeGone(q, err) {
			errs = append(errs, err)
		}
	}
	t.parts = nil
	return errors.Join(errs...)
}

// scopeGone: systemd removes a scope's cgroup by itself, and may have it.
func (t *Tree) scopeGone(q part, err error) bool {
	return t.manager != nil && q.v2 && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission))
}

func (t *Tree) removePart(ctx context.Context, q part) error {
	for delay := time.Millisecond; ; delay = min(2*delay, 100*time.Millisecond) {
		err := t.kernel.Remove(q.parent)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, syscall.EBUSY) {
			return fmt.Errorf("cannot remove cgroup %q: %w", q.parent, err)
		}
		if err := t.Kill(); err != nil {
			return err
		}
		select { // version 1 tells nobody when a cgroup is empty
		case <-ctx.Done():
			return fmt.Errorf("cannot remove cgroup %q: it isn't empty after %v", q.parent, removeWait)
		case <-time.After(delay):
		}
	}
}
