package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"pinfold/plan"
	"pinfold/policy"
)

// openRecord makes the record directory: dir, or a new one of the run's name
// beneath the state directory. It is made only once the guard has let the
// launch through, so a refusal leaves nothing behind.
func openRecord(dir, state, run string) (*plan.Record, error) {
	if dir == "" {
		parent := filepath.Join(state, "records")
		if err := os.Mkdir(parent, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, stateRefusal(state, "cannot keep records in", err)
		}
		dir = filepath.Join(parent, run)
	}
	r, err := plan.CreateRecord(dir)
	var refusal *policy.Refusal
	if err == nil || errors.As(err, &refusal) {
		return r, err
	}
	return nil, &policy.Refusal{
		Reason: policy.Unavailable, Code: "record_unwritable", Subject: dir, Err: err,
		Why: fmt.Sprintf("cannot keep the record in %q: %v", dir, cause(err)),
		Fix: "name a directory whose parent exists and that you may write with --record DIR",
	}
}

// runName names a run: by time, so that a listing is in order, and at random,
// so that two launches at one moment differ.
func runName(now time.Time) string {
	var b [4]byte
	rand.Read(b[:]) //nolint:errcheck // never fails (crypto/rand)
	return fmt.Sprintf("%s-%x", now.UTC().Format("20060102T150405"), b)
}
