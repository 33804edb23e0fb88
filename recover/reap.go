package recover

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"pinfold/bwrap"
	"pinfold/bwrap/cgroup"
	"pinfold/container/launch"
	"pinfold/plan"
)

// ReapOptions say what to clear.
type ReapOptions struct {
	// State is the state directory.
	State string
	// Records are more records, which lie elsewhere.
	Records []string
	// Cgroup is where launches were told to make their cgroups, if they were.
	Cgroup string
	// OlderThan removes the records beneath the state directory whose launch
	// ended that long ago. Zero removes none.
	OlderThan time.Duration
	// DryRun says what would be done.
	DryRun bool
}

// The kinds of what crashes leave behind.
const (
	KindMountPoint = "mount_point" // made on the host for a cover
	KindLease      = "lease"       // of a mount point, damaged: it is set aside
	KindDirectory  = "directory"   // of one launch: its run directory or workspace
	KindTemporary  = "temporary"   // a file of a record, half written
	KindRecord     = "record"
	KindCgroup     = "cgroup"
	KindContainer  = "container" // whose supervisor has gone
	KindProcess    = "process"   // that its killed bubblewrap left waiting
)

// Cleared is one thing that was removed, or would be.
type Cleared struct {
	Kind string `json:"kind"`
	Path string `json:"path"`
}

// Reaped is what a reaping did.
type Reaped struct {
	DryRun  bool      `json:"dry_run"`
	Cleared []Cleared `json:"cleared"`
	// Living are the records whose launches live, those that lie elsewhere
	// too: nothing of theirs is touched.
	Living []string `json:"living"`
	// Unclear are the records that nobody can tell about, with why. They stay.
	Unclear []Info `json:"unclear,omitempty"`
}

// settleTime is how long a sandbox may take to follow its supervisor.
const settleTime = 10 * time.Second

// reaper is one run of Reap.
type reaper struct {
	o    ReapOptions
	done Reaped
	errs []error
	kept []string // directories that containers have mounted
	seen []string // records
}

// Reap clears what killed launches left: mount points, directories made for
// one launch, files half written, and records that are old. It waits first
// for sandboxes that are just dying, since a mount point that goes takes a
// cover along.
func Reap(ctx context.Context, o ReapOptions) (Reaped, error) {
	r := &reaper{o: o, done: Reaped{DryRun: o.DryRun, Cleared: []Cleared{}, Living: []string{}}}
	paths, err := plan.Records(o.State)
	if err != nil {
		return r.done, err
	}
	r.seen = append(paths, o.Records...)
	ended := r.settle(ctx, r.seen)
	if r.kept, err = launch.Kept(o.State); err != nil {
		r.errs = append(r.errs, err)
	}
	r.stranded()
	for _, kind := range []string{"run", "workspace", "tmp"} {
		r.directories(filepath.Join(o.State, kind))
	}
	r.cgroups()
	r.containers(ctx)
	r.mountPoints() // whom they were for has gone by now
	r.records(ended)
	r.elsewhere(ctx)
	return r.done, errors.Join(r.errs...)
}

// settle sorts the records and answers those whose launches have ended.
func (r *reaper) settle(ctx context.Context, paths []string) []string {
	var ended []string
	for _, path := range paths {
		run, err := Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			ended = append(ended, path) // never pinned, and nobody holds it
			continue
		}
		if err != nil {
			r.done.Unclear = append(r.done.Unclear, Info{Record: path, Why: err.Error()})
			continue
		}
		id, err := run.reapContainer(ctx, r.o.DryRun)
		if id != "" && err == nil {
			r.did(KindContainer, id)
		}
		lives := false
		if id == "" && err == nil {
			lives, err = run.lives(ctx)
		}
		run.Close()
		switch {
		case err != nil:
			r.errs = append(r.errs, err)
		case lives:
			r.done.Living = append(r.done.Living, path)
		default:
			ended = append(ended, path)
		}
	}
	return ended
}

// elsewhere tells of the launches that live and whose records lie elsewhere.
// Nothing of those is cleared here: who wants that names them.
func (r *reaper) elsewhere(ctx context.Context) {
	noted, err := plan.Noted(r.o.State)
	r.errs = append(r.errs, err)
	for _, path := range noted {
		if slices.ContainsFunc(r.seen, func(seen string) bool { return isSame(seen, path) }) {
			continue
		}
		run, err := Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			r.done.Unclear = append(r.done.Unclear, Info{Record: path, Why: err.Error()})
			continue
		}
		orphan, err := run.reapContainer(ctx, true)
		if state := run.State(); orphan == "" && (state == Running || state == Starting) {
			r.done.Living = append(r.done.Living, path)
		}
		run.Close()
		r.errs = append(r.errs, err)
	}
}

func isSame(a, b string) bool {
	x, xerr := os.Stat(a)
	y, yerr := os.Stat(b)
	return a == b || xerr == nil && yerr == nil && os.SameFile(x, y)
}

func (r *reaper) mountPoints() {
	damaged, err := bwrap.SetAside(r.o.State, r.o.DryRun)
	r.errs = append(r.errs, err)
	for _, f := range damaged {
		r.did(KindLease, f)
	}
	clear := bwrap.Reclaim
	if r.o.DryRun {
		clear = bwrap.Leftovers
	}
	paths, err := clear(r.o.State)
	r.errs = append(r.errs, err)
	for _, p := range paths {
		r.did(KindMountPoint, p)
	}
}

// cgroups are looked for where this process would make its own.
func (r *reaper) cgroups() {
	clear := cgroup.Reap
	if r.o.DryRun {
		clear = cgroup.Stale
	}
	for _, dir := range clear(cgroup.Options{Path: r.o.Cgroup}) {
		r.did(KindCgroup, dir)
	}
}

func (r *reaper) did(kind, path string) {
	r.done.Cleared = append(r.done.Cleared, Cleared{Kind: kind, Path: path})
}

// directories removes those beneath parent that no launch has locked.
func (r *reaper) directories(parent string) {
	unlock, err := plan.ClearDir(parent)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		r.errs = append(r.errs, err)
		return
	}
	defer unlock()
	entries, err := os.ReadDir(parent)
	r.errs = append(r.errs, err)
	for _, e := range entries {
		r.directory(filepath.Join(parent, e.Name()))
	}
}

func (r *reaper) directory(dir string) {
	if slices.Contains(r.kept, dir) {
		return // a container has it mounted
	}
	unlock, free, err := plan.TryDir(dir)
	if err != nil || !free {
		r.errs = append(r.errs, err)
		return
	}
	defer unlock()
	if !r.o.DryRun {
		if err := plan.RemoveTree(dir); err != nil {
			r.errs = append(r.errs, err)
			return
		}
	}
	r.did(KindDirectory, dir)
}

// records removes old ones, and from the others what is half written.
func (r *reaper) records(ended []string) {
	parent := filepath.Join(r.o.State, plan.RecordsDir)
	unlock, err := plan.ClearDir(parent)
	if err == nil {
		defer unlock()
	} else if !errors.Is(err, fs.ErrNotExist) {
		r.errs = append(r.errs, err)
		return
	}
	for _, path := range ended {
		r.record(path, filepath.Dir(path) == parent)
	}
	unfinished, err := plan.Unfinished(r.o.State)
	r.errs = append(r.errs, err)
	for _, path := range unfinished {
		r.removeRecord(path)
	}
}

func (r *reaper) record(path string, own bool) {
	held, err := plan.IsHeld(path)
	if err != nil || held {
		r.errs = append(r.errs, ignoreMissing(err))
		return
	}
	if own && r.isOld(path) {
		r.removeRecord(path)
		return
	}
	files, err := plan.Temporary(path)
	r.errs = append(r.errs, err)
	for _, f := range files {
		if !r.o.DryRun {
			err = os.Remove(f)
		}
		if err == nil {
			r.did(KindTemporary, f)
		}
		r.errs = append(r.errs, err)
	}
}

// removeRecord removes a record, or what is left of one. One that isn't to be
// removed is said to stay, unless somebody has taken it just now.
func (r *reaper) removeRecord(path string) {
	remove := plan.RemoveRecord
	if r.o.DryRun {
		remove = plan.CheckRemovable
	}
	err := remove(path)
	switch {
	case err == nil:
		r.did(KindRecord, path)
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, plan.ErrHeld):
	case errors.Is(err, plan.ErrLeft):
		r.done.Unclear = append(r.done.Unclear, Info{Record: path, Why: err.Error()})
	default:
		r.errs = append(r.errs, err)
	}
}

// isOld: a record that was never pinned says nothing and goes at once, any
// other by the time of its last change.
func (r *reaper) isOld(path string) bool {
	if _, err := plan.ReadRecord(path); errors.Is(err, fs.ErrNotExist) && !tellsWhatWasTaken(path) {
		return true
	}
	info, err := os.Lstat(path)
	return err == nil && r.o.OlderThan > 0 && time.Since(info.ModTime()) >= r.o.OlderThan
}

// tellsWhatWasTaken reports whether a record that has no plan, since the next
// attempt's wasn't written any more, holds what an earlier one took away.
func tellsWhatWasTaken(path string) bool {
	_, journal := os.Lstat(filepath.Join(path, "journal"))
	_, taken := os.Lstat(filepath.Join(path, plan.TakenDir))
	return journal == nil && taken == nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
