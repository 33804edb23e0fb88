package plan

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// ErrHeld is a record whose launch goes on.
var ErrHeld = errors.New("a launch holds it")

// lockDir takes the lock of a record. It belongs to the open file, which no
// program started from here gets, so it ends with this process at the latest.
func lockDir(dir *os.Root) (*os.File, error) {
	f, err := dir.Open(".")
	if err != nil {
		return nil, err
	}
	if err := flock(f, syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func flock(f *os.File, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return ErrHeld
		}
		return err
	}
}

// IsHeld reports whether the process that keeps the record still has it: its
// launch is starting, runs, or is just ending. A process that was killed holds
// nothing.
func IsHeld(path string) (bool, error) {
	dir, err := openPrivate(path)
	if err != nil {
		return false, fmt.Errorf("cannot look at record %q: %w", path, err)
	}
	defer dir.Close() //nolint:errcheck // read only
	f, err := dir.Open(".")
	if err == nil {
		defer f.Close() //nolint:errcheck // read only
		err = flock(f, syscall.LOCK_SH)
	}
	if errors.Is(err, ErrHeld) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot look at record %q: %w", path, err)
	}
	return false, nil
}

// Temporary are the files that a writer of the record left half written when
// it was killed. Nobody must hold the record.
func Temporary(path string) ([]string, error) {
	dir, err := openPrivate(path)
	if err != nil {
		return nil, fmt.Errorf("cannot look at record %q: %w", path, err)
	}
	defer dir.Close() //nolint:errcheck // read only
	var out []string
	for _, name := range recordFiles {
		if _, err := dir.Lstat(temporaryName(name)); err == nil {
			out = append(out, filepath.Join(path, temporaryName(name)))
		}
	}
	return out, nil
}

func temporaryName(name string) string { return "." + name + ".new" }

// The journal's words for a stop that came from outside the supervisor.
const (
	StepAsked = "asked" // an action: by somebody else
	StepSent  = "sent"  // an action: by the supervisor itself
	StepStop  = "stop"  // a kind; the detail is what was sent, StopTerm or StopKill
	StopTerm  = "term"
	StopKill  = "kill"
)

// NoteStop writes to the journal of a running launch what it is about to be
// sent, before it is: so the end that it records says so.
func NoteStop(path, what string) error {
	dir, err := openPrivate(path)
	if err != nil {
		return fmt.Errorf("cannot note a stop in record %q: %w", path, err)
	}
	defer dir.Close() //nolint:errcheck // the journal has been written by then
	r := &Record{dir: dir, path: path}
	return r.Add(Step{Time: time.Now(), Action: StepAsked, Kind: StepStop, Detail: what})
}

// Add writes one step to the journal.
func (r *Record) Add(s Step) error {
	j, err := r.Journal()
	if err != nil {
		return err
	}
	return errors.Join(j.Add(s), j.Close())
}

// Stop is the last thing that somebody else sent to this launch's command, or
// "".
func (r *Record) Stop() (string, error) {
	steps, err := readJournal(r.dir)
	if err != nil {
		return "", fmt.Errorf("cannot read the journal of %q: %w", r.path, err)
	}
	for _, s := range slices.Backward(steps) {
		if s.Action == StepAsked && s.Kind == StepStop {
			return s.Detail, nil
		}
	}
	return "", nil
}
