package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"pinfold/guard"
	"pinfold/plan"
	"pinfold/policy"
)

// recordsDir is where records are kept beneath the state directory.
const recordsDir = plan.RecordsDir

// makeRecord makes the directory that --record names before the guard looks, so
// that it is kept from the command like every other protected path: the plan,
// the events and how it ended are nothing for it to read. What stands in the
// way is told by openRecord.
func (l *prepared) makeRecord() {
	if l.request.Record != "" {
		l.recordMade = os.Mkdir(l.request.Record, 0o700) == nil
	}
}

// removeRecord takes it away again if no launch came of it.
func (l *prepared) removeRecord() error {
	if !l.recordMade {
		return nil
	}
	l.recordMade = false
	lock, err := lockDir(l.request.Record)
	if err != nil {
		return nil //nolint:nilerr // another launch's, or taken away
	}
	if err = os.Remove(l.request.Record); errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) {
		err = nil // a launch's
	}
	return errors.Join(err, lock.Close())
}

// refuseKept refuses a record or a state directory that lies in a write grant.
// A cover keeps it from this command, but a launch that knows nothing of it
// would have it as a file like others, and could write how this one ended. The
// state directory that is there without asking is kept from every launch.
func (l *prepared) refuseKept(g *guard.Grant) error {
	paths := g.Paths()
	if path := paths.Record; path != "" && g.Writable(filepath.Dir(path)) {
		return &policy.Refusal{
			Reason: policy.Denied, Code: "record_unsafe", Subject: path,
			Why: fmt.Sprintf("cannot keep the record in %q: commands may write where it lies", path),
			Fix: "name a directory outside of every write grant with --record DIR",
		}
	}
	if path := paths.State; path != "" && path != l.usualState && g.Writable(filepath.Dir(path)) {
		return &policy.Refusal{
			Reason: policy.Denied, Code: "state_unsafe", Subject: path,
			Why: fmt.Sprintf("cannot keep the state in %q: commands may write where it lies", path),
			Fix: "name a directory outside of every write grant with --state DIR or $PINFOLD_STATE",
		}
	}
	return nil
}

// checkRecord is what openRecord finds of a record directory that was named,
// for who opens none.
func (l *prepared) checkRecord() error {
	dir := l.request.Record
	if dir == "" {
		return nil
	}
	return recordRefusal(dir, plan.CheckRecord(dir))
}

// openRecord opens the record directory: dir, or a new one of the run's name
// beneath the state directory. That one is made only once the guard has let
// the launch through, so a refusal leaves nothing behind.
func openRecord(dir, state, run string) (*plan.Record, error) {
	if dir == "" {
		parent := filepath.Join(state, recordsDir)
		if err := os.Mkdir(parent, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, stateRefusal(state, "cannot keep records in", err)
		}
		dir = filepath.Join(parent, run)
		unlock, err := plan.ShareDir(parent)
		if err != nil {
			return nil, stateRefusal(state, "cannot keep records in", err)
		}
		defer unlock()
	}
	r, err := plan.CreateRecord(dir)
	return r, recordRefusal(dir, err)
}

// note leaves word in the state directory of a record that lies elsewhere, for
// as long as the run lives.
func (r *oneRun) note(dir string) error {
	if dir == "" {
		return nil
	}
	undo, err := plan.NoteRecord(r.state, r.name, r.record.Path())
	if err != nil {
		return stateRefusal(r.state, "cannot note a record in", err)
	}
	r.closers = append(r.closers, undo)
	return nil
}

// recordRefusal says so where the directory can't be made, or can't be looked at.
func recordRefusal(dir string, err error) error {
	var refusal *policy.Refusal
	if err == nil || errors.As(err, &refusal) {
		return err
	}
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "record_unwritable", Subject: dir, Err: err,
		Why: fmt.Sprintf("cannot keep the record in %q: %v", dir, cause(err)),
		Fix: "name a directory whose parent exists and that you may write with --record DIR",
	}
}

// keptRecords is how many records are kept where nobody asked for one: enough
// to look at what ran lately, and a few megabytes.
const keptRecords = 1000

// pruneRecords removes the oldest of the records beneath the state directory,
// each whole. One without an end is kept: recovery may want it. So is one that
// somebody reads, or has put something into.
func pruneRecords(state string, kept int) error {
	list, err := plan.Records(state) // by name, so by time
	errs := []error{err}
	for _, dir := range list[:max(0, len(list)-kept)] {
		if _, err := os.Lstat(filepath.Join(dir, "exit")); err != nil {
			continue
		}
		if err := plan.RemoveRecord(dir); !errors.Is(err, plan.ErrLeft) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// pruneNow says whether a run is one of those that look for old records: one
// in sixteen, by its random name.
func pruneNow(run string) bool { return strings.HasSuffix(run, "0") }

// runName names a run: by time, so that a listing is in order, and at random,
// so that two launches at one moment differ.
func runName(now time.Time) string {
	var b [4]byte
	rand.Read(b[:]) //nolint:errcheck // never fails (crypto/rand)
	return fmt.Sprintf("%s-%x", now.UTC().Format("20060102T150405"), b)
}
