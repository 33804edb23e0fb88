package plan

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// notedDir holds, beneath the state directory, a note for each launch whose
// record lies elsewhere: where. The launch holds a lock on it.
const notedDir = "elsewhere"

// maxNote bounds a note, and halfNote how long one may take to be written. Until
// then its name begins with halfPrefix: nobody is to see one that says nothing.
const (
	maxNote    = 64 << 10
	halfNote   = time.Minute
	halfPrefix = "."
)

// NoteRecord leaves in the state directory where the record of a run lies, so
// that who asks what runs there hears of it. Undo takes the note away, unless
// the launch left no end: then it is to be found.
func NoteRecord(state, run, record string) (undo func() error, err error) {
	path, half := filepath.Join(state, notedDir, run), filepath.Join(state, notedDir, halfPrefix+run)
	f, err := createNote(half)
	if err == nil {
		err = flock(f, syscall.LOCK_EX)
		if err == nil {
			_, err = f.WriteString(record)
		}
		if err == nil {
			err = os.Rename(half, path)
		}
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(half))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot note a record: %w", err)
	}
	return func() error {
		err := f.Close()
		if isOver(record) {
			err = errors.Join(err, ignoreMissing(os.Remove(path))) // who lists them may have been first
		}
		return err
	}, nil
}

func createNote(path string) (*os.File, error) {
	const flags = os.O_RDWR | os.O_CREATE | os.O_EXCL
	f, err := os.OpenFile(path, flags, 0o600)
	if !errors.Is(err, fs.ErrNotExist) {
		return f, err
	}
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.OpenFile(path, flags, 0o600)
}

// isOver reports whether a record says that its launch has ended, or that
// nothing was started.
func isOver(record string) bool {
	_, exit := os.Lstat(filepath.Join(record, exitFile))
	_, plan := os.Lstat(filepath.Join(record, planFile))
	return exit == nil || errors.Is(plan, fs.ErrNotExist)
}

// Noted are the records that lie elsewhere, of launches which haven't ended or
// of which nobody knows. Notes that are of no use any more are taken away. One
// that leads nowhere, while its launch lives, is an error.
func Noted(state string) ([]string, error) {
	dir := filepath.Join(state, notedDir)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, e := range entries {
		var record string
		if strings.HasPrefix(e.Name(), halfPrefix) {
			if err = removeHalf(filepath.Join(dir, e.Name())); err != nil {
				break
			}
			continue
		}
		if record, err = readNoted(filepath.Join(dir, e.Name())); err != nil {
			break
		}
		if record != "" {
			out = append(out, record)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list the records that lie elsewhere: %w", err)
	}
	return out, nil
}

// readNoted answers where a note leads, or "" where nothing runs.
func readNoted(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // taken away just now
	}
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // read only
	err = flock(f, syscall.LOCK_SH)
	lives := errors.Is(err, ErrHeld)
	if err != nil && !lives {
		return "", err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxNote))
	if err != nil {
		return "", err
	}
	record := string(text)
	_, err = os.Lstat(record)
	switch {
	case err == nil && strings.HasPrefix(record, "/") && !isOver(record), err == nil && lives:
		return record, nil
	case lives:
		return "", fmt.Errorf("the launch of %q lives, and its record %q isn't there: %w", path, record, err)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	return "", ignoreMissing(os.Remove(path))
}

// removeHalf takes away a note that was never finished.
func removeHalf(path string) error {
	info, err := os.Lstat(path)
	if err == nil && time.Since(info.ModTime()) > halfNote {
		err = os.Remove(path)
	}
	return ignoreMissing(err)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
