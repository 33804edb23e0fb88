package plan

import (
	"errors"
	"fmt"
	"io/fs"
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

// ResumeRecord takes over the record of a launch that runs on though its
// supervisor has gone.
func ResumeRecord(path string) (*Record, error) {
	dir, err := openPrivate(path)
	if err != nil {
		return nil, fmt.Errorf("cannot take over record %q: %w", path, err)
	}
	r := &Record{dir: dir, path: path}
	if r.lock, err = lockDir(dir); err != nil {
		return nil, fmt.Errorf("cannot take over record %q: %w", path, errors.Join(err, dir.Close()))
	}
	return r, nil
}
