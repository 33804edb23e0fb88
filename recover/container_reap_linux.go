package recover

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"pinfold/container"
	"pinfold/container/engine"
	"pinfold/container/launch"
	"pinfold/plan"
)

// reapGrace is how long a container whose supervisor has gone gets to end.
const reapGrace = 10 * time.Second

// reapContainer ends and removes a container that nobody supervises any more,
// and answers its ID; "" where there is none.
func (r *Run) reapContainer(ctx context.Context, dryRun bool) (string, error) {
	if r.c == nil || !r.c.orphaned() {
		return "", nil
	}
	if dryRun {
		return r.c.ref.ID, nil
	}
	_, err := r.stopContainer(ctx, reapGrace)
	return r.c.ref.ID, err
}

// containers clears what lost launches of this state directory left with the
// engines, and the directories that those had mounted.
func (r *reaper) containers(ctx context.Context) {
	root := filepath.Join(r.o.State, launch.DirsName)
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return // there never was a container
	}
	if err != nil {
		r.errs = append(r.errs, err)
		return
	}
	used, whole := r.listed(ctx)
	if !whole {
		return // what can't be listed may be using them
	}
	for _, e := range entries {
		if dir := filepath.Join(root, e.Name()); e.IsDir() && e.Name() != launch.SeatsName && !slices.Contains(used, dir) {
			r.containerDirs(dir)
		}
	}
}

// listed clears the containers that no launch has, and answers the directories
// that the others use. whole: every engine that may have one was asked.
func (r *reaper) listed(ctx context.Context) (used []string, whole bool) {
	whole = true
	pinned := r.endpoints()
	for _, at := range append(pinned, defaultEndpoints()...) {
		e, err := engine.Connect(ctx, at.name, at.endpoint)
		if err != nil {
			if slices.Contains(pinned, at) {
				whole = false
				r.errs = append(r.errs, err)
			}
			continue
		}
		e.Remember(r.o.State)
		list, err := e.List(ctx, map[string]string{container.LabelHost: launch.HostLabel(r.o.State)})
		if err != nil {
			whole = false
			r.errs = append(r.errs, err)
		}
		for _, s := range list {
			if r.containerLeft(ctx, e, s) {
				used = append(used, dirsOf(s, r.o.State)...)
			}
		}
		r.errs = append(r.errs, e.Close())
	}
	return used, whole
}

// place is where an engine listens.
type place struct{ name, endpoint string }

// endpoints are those that records without an end name.
func (r *reaper) endpoints() []place {
	paths, err := plan.Records(r.o.State)
	r.errs = append(r.errs, err)
	var out []place
	for _, path := range append(paths, r.o.Records...) {
		s, err := plan.ReadRecord(path)
		if err != nil || s.Container == nil || s.Exit != nil {
			continue
		}
		if at := (place{s.Container.Provider, s.Container.Endpoint}); !slices.Contains(out, at) {
			out = append(out, at)
		}
	}
	return out
}

func defaultEndpoints() []place {
	home, _ := os.UserHomeDir() // "" leaves the places beneath it out
	choice := engine.Choice{Env: os.Getenv, Home: home, UID: os.Geteuid()}
	var out []place
	for _, name := range engine.Names() {
		list, err := choice.Endpoints(name)
		if err != nil {
			continue // a context that isn't there
		}
		for _, endpoint := range list {
			out = append(out, place{name, endpoint})
		}
	}
	return out
}

// containerLeft removes a container that no launch has, and reports whether it
// is still there.
func (r *reaper) containerLeft(ctx context.Context, e *engine.Engine, s container.State) bool {
	record := s.Labels[container.LabelRecord]
	held, err := false, error(nil)
	if record != "" {
		held, err = plan.IsHeld(record)
	}
	if held || err != nil && !errors.Is(err, fs.ErrNotExist) || record == "" && s.Alive() {
		return true
	}
	if !r.o.DryRun {
		if settled, kept := r.settledByRecord(ctx, e, s); settled || kept {
			return kept
		}
		if s.Alive() {
			err = e.Stop(ctx, s.Ref, reapGrace)
		} else {
			err = nil
		}
		if err = errors.Join(err, e.Remove(ctx, s.Ref)); err != nil {
			r.errs = append(r.errs, fmt.Errorf("cannot remove container %.12s: %w", s.Ref.ID, err))
			return true
		}
	}
	if !slices.ContainsFunc(r.done.Cleared, func(c Cleared) bool { return c.Path == s.Ref.ID }) {
		r.did(KindContainer, s.Ref.ID)
	}
	return r.o.DryRun
}

// settledByRecord takes a container away by its record, so that this learns of
// the end: with the container goes all that tells. A record that lies outside
// the state directory and that nobody has named wasn't looked at yet; one that
// was may have had a supervisor then that was just dying.
func (r *reaper) settledByRecord(ctx context.Context, e *engine.Engine, s container.State) (settled, kept bool) {
	record := s.Labels[container.LabelRecord]
	if record == "" {
		return false, false
	}
	seen := slices.Contains(r.seen, record)
	if seen && !awaitsEnd(record, s.Ref.ID) {
		return false, false
	}
	r.done.Living = slices.DeleteFunc(r.done.Living, func(path string) bool { return path == record })
	r.done.Unclear = slices.DeleteFunc(r.done.Unclear, func(i Info) bool { return i.Record == record })
	r.seen = append(r.seen, record)
	r.settle(ctx, []string{record})
	now, err := e.Inspect(ctx, s.Ref)
	settled = err == nil && now.Status == container.Gone
	return settled, seen && !settled
}

// awaitsEnd reports whether a record is of this container, and has no end yet.
func awaitsEnd(record, id string) bool {
	s, err := plan.ReadRecord(record)
	return err == nil && s.Exit == nil && s.Container != nil && s.Container.ID == id
}

// dirsOf are the directories of launches that a container has mounted.
func dirsOf(s container.State, state string) []string {
	parent := filepath.Join(state, launch.DirsName) + "/"
	var out []string
	for _, source := range s.Sources {
		if rest, ok := strings.CutPrefix(source, parent); ok {
			first, _, _ := strings.Cut(rest, "/")
			out = append(out, parent+first)
		}
	}
	return out
}

// containerDirs removes the directories of a launch that is no more: nobody
// has their lock, and they weren't made just now.
func (r *reaper) containerDirs(dir string) {
	info, err := os.Lstat(dir)
	if err != nil || time.Since(info.ModTime()) < settleTime {
		return
	}
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		r.errs = append(r.errs, ignoreMissing(err))
		return
	}
	defer f.Close() //nolint:errcheck // the lock goes with it
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return // a launch has it
	}
	if !r.o.DryRun {
		if err := launch.DirsAt(dir).Remove(); err != nil {
			r.errs = append(r.errs, err)
			return
		}
	}
	r.did(KindDirectory, dir)
}
