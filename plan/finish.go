package plan

import (
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// FinishRecord writes how a launch ended whose supervisor didn't live to see
// it. Nobody must hold the record. One that has an end already keeps it.
func FinishRecord(path string, e Exit) error {
	dir, err := openPrivate(path)
	if err != nil {
		return fmt.Errorf("cannot finish record %q: %w", path, err)
	}
	r := &Record{dir: dir, path: path}
	if r.lock, err = lockDir(dir); err != nil {
		return fmt.Errorf("cannot finish record %q: %w", path, errors.Join(err, dir.Close()))
	}
	if _, err = dir.Lstat(exitFile); errors.Is(err, fs.ErrNotExist) {
		err = r.WriteExit(e)
	}
	return errors.Join(err, r.Close())
}

// dyingTime is how long a supervisor that was killed may take to let its record
// go, which is when the kernel has taken it apart.
const (
	dyingTime  = time.Second
	dyingPause = 10 * time.Millisecond
)

// ResumeRecord takes over the record of a launch that runs on though its
// supervisor has gone, or is just going.
func ResumeRecord(path string) (*Record, error) {
	dir, err := openPrivate(path)
	if err != nil {
		return nil, fmt.Errorf("cannot take over record %q: %w", path, err)
	}
	r := &Record{dir: dir, path: path}
	for end := time.Now().Add(dyingTime); ; <-time.After(dyingPause) { // nothing tells of a lock that is free
		if r.lock, err = lockDir(dir); err == nil {
			return r, nil
		}
		if !errors.Is(err, ErrHeld) || time.Now().After(end) {
			return nil, fmt.Errorf("cannot take over record %q: %w", path, errors.Join(err, dir.Close()))
		}
	}
}
