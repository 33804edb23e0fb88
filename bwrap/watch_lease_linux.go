package bwrap

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/guard"
	"pinfold/plan"
)

// watchDir holds, beneath the state directory, a lease for each run that
// watches names: which, and since when. The run holds a lock on it and renews
// its time; the kernel drops the lock with the process. So what a run couldn't
// clear because it was killed can be told, later, from what others have made
// since.
const watchDir = "watches"

// watchNote is what a lease says.
type watchNote struct {
	Began int64         `json:"began_ns"`
	Names []watchedName `json:"names"`
	Keep  string        `json:"keep"`
}

// watchedName is one name, and the write grant that it lies in; Worktrees and
// Known as in [guard.Watch].
type watchedName struct {
	Path      string   `json:"path"`
	Root      string   `json:"root"`
	Worktrees bool     `json:"worktrees,omitzero"`
	Known     []string `json:"known,omitempty"`
}

// watchLease is one run's. A nil one is of a run that watches nothing.
type watchLease struct {
	f    *os.File
	last time.Time
}

func newWatchLease(state, keep string, watches []guard.Watch) (*watchLease, error) {
	dir := filepath.Join(state, watchDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make %q: %w", dir, err)
	}
	n := watchNote{Began: time.Now().UnixNano(), Keep: keep}
	for _, w := range watches {
		n.Names = append(n.Names, watchedName{w.Path, w.Root, w.Worktrees, w.Known})
	}
	text, err := plan.EncodeNote(n)
	if err != nil {
		return nil, fmt.Errorf("cannot write a lease: %w", err)
	}
	f, err := os.CreateTemp(dir, "*"+leaseExt)
	if err != nil {
		return nil, fmt.Errorf("cannot write a lease: %w", err)
	}
	l := &watchLease{f: f, last: time.Now()}
	if err := l.enter(text); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot write a lease: %w", err), l.end())
	}
	return l, nil
}

// enter locks the lease before there is anything in it: others leave an empty
// one alone until it is old.
func (l *watchLease) enter(text []byte) error {
	if err := unix.Flock(int(l.f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return err
	}
	_, err := l.f.Write(text)
	return err
}

// beat renews the time, every few seconds.
func (l *watchLease) beat(now bool) {
	if l == nil || !now && time.Since(l.last) < heartbeat {
		return
	}
	l.last = time.Now()
	// The time of the lease is the only thing that says until when this run
	// lived; if it can't be set, less is cleared after a crash.
	_ = os.Chtimes(l.f.Name(), l.last, l.last)
}

func (l *watchLease) end() error {
	if l == nil {
		return nil
	}
	err := os.Remove(l.f.Name())
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, l.f.Close())
}

// reclaimWatches clears what killed runs couldn't: names that were taken while
// they lasted, and still are by the same thing. It answers their paths.
func reclaimWatches(state string) ([]string, error) {
	dir := filepath.Join(state, watchDir)
	list, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %q: %w", dir, err)
	}
	var removed []string
	var errs []error
	for _, e := range list {
		if !strings.HasSuffix(e.Name(), leaseExt) {
			continue
		}
		paths, err := reclaimWatch(filepath.Join(dir, e.Name()))
		removed = append(removed, paths...)
		errs = append(errs, err)
	}
	return removed, errors.Join(errs...)
}

// leaseGrace is how old a lease without a lock or content must be: its run may
// be about to lock it.
const leaseGrace = time.Minute

func reclaimWatch(name string) ([]string, error) {
	f, err := os.OpenFile(name, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, ignoreGone(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, nil //nolint:nilerr // its run lives
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() == 0 && time.Since(info.ModTime()) < leaseGrace {
		return nil, nil
	}
	var n watchNote
	if b, err := os.ReadFile(name); err != nil || len(b) > 0 && plan.DecodeNote(b, &n) != nil {
		return nil, fmt.Errorf("cannot read lease %q: it is damaged", name)
	}
	removed, err := n.clear(info.ModTime().Add(heartbeat))
	if err != nil {
		return removed, err // the lease stays for the next one to try
	}
	return removed, os.Remove(name)
}

func (n watchNote) during(t int64, until time.Time) bool {
	return t >= n.Began-clockSlack && t <= until.UnixNano()+clockSlack
}

// clear takes away what came to be there between two times: was made, or got
// the name (which changes an inode's ctime).
func (n watchNote) clear(until time.Time) (removed []string, err error) {
	r := newRoom()
	for _, p := range n.Names {
		list, err := victims(guard.Watch{Path: p.Path, Root: p.Root, Worktrees: p.Worktrees, Known: p.Known})
		for _, v := range list {
			if err == nil && (n.during(v.born, until) || n.during(v.changed, until)) && !v.foreign() {
				err = n.clearOne(v, &r)
				removed = append(removed, v.path)
			}
			v.close()
		}
		if err != nil && !errors.Is(err, unix.ENOENT) {
			return removed, fmt.Errorf("cannot clear %q: %w", p.Path, err)
		}
	}
	settled, err := n.clearAsides(until, &r)
	return append(removed, settled...), err
}

func (n watchNote) clearOne(v *victim, r *room) error {
	a, err := v.takeAway(n.Keep, r)
	if a == nil {
		return err
	}
	return errors.Join(err, a.finish(n.Keep, r))
}
