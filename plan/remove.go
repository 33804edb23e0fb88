package plan

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// TakenDir holds, in a record, what was taken away from guarded names.
const TakenDir = "taken"

// gonePrefix begins the name of a record that is being removed: what is left
// of it when that is cut short is no record any more.
const gonePrefix = ".gone-"

// ErrLeft is a record that isn't to be removed: nothing of it was.
var ErrLeft = errors.New("the record is left as it is")

// leftError is why.
type leftError struct{ error }

func (e leftError) Unwrap() error        { return e.error }
func (e leftError) Is(target error) bool { return target == ErrLeft } //nolint:errorlint // what Is is for

// RemoveRecord removes a record that nobody holds, whole, or leaves it whole:
// with [ErrLeft] where there is something in it that no launch has put there.
func RemoveRecord(path string) error {
	err := removeRecord(path)
	if err != nil {
		return fmt.Errorf("cannot remove record %q: %w", path, err)
	}
	return nil
}

func removeRecord(path string) error {
	dir, err := openPrivate(path)
	if err != nil {
		return leftError{err}
	}
	defer dir.Close() //nolint:errcheck // gone in the end
	lock, err := lockDir(dir)
	if err != nil {
		return leftError{err}
	}
	defer lock.Close() //nolint:errcheck // nobody can ask for it any more
	if err := checkRemovable(dir); err != nil {
		return leftError{err}
	}
	gone, err := moveAway(path)
	if err != nil {
		return err
	}
	return RemoveTree(gone)
}

// CheckRemovable is what [RemoveRecord] finds before it changes anything.
func CheckRemovable(path string) error {
	dir, err := openPrivate(path)
	if err == nil {
		err = errors.Join(checkRemovable(dir), dir.Close())
	}
	if err != nil {
		return fmt.Errorf("cannot remove record %q: %w", path, leftError{err})
	}
	return nil
}

func checkRemovable(dir *os.Root) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	names, err := f.Readdirnames(-1)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		info, err := dir.Lstat(name)
		if err != nil {
			return err
		}
		if info.IsDir() != (name == TakenDir) || !isRecords(name) {
			return fmt.Errorf("it holds %q, which no launch has put there", name)
		}
	}
	if slices.Contains(names, TakenDir) {
		return checkTaken(dir)
	}
	return nil
}

// isRecords reports whether a launch gives something in its record this name.
func isRecords(name string) bool {
	whole := strings.TrimSuffix(strings.TrimPrefix(name, "."), ".new")
	if name == temporaryName(whole) {
		name = whole
	}
	return slices.Contains(recordFiles, name) || name == TakenDir || isAside(name)
}

// isAside reports whether name is a plan's that was set aside.
func isAside(name string) bool {
	number, suffixed := strings.CutSuffix(name, ".json")
	number, prefixed := strings.CutPrefix(number, "plan.")
	_, err := strconv.ParseUint(number, 10, 64)
	return suffixed && prefixed && err == nil
}

// checkTaken looks for directories that only another user can empty. One that
// this user has closed to himself is opened when it is removed.
func checkTaken(dir *os.Root) error {
	return fs.WalkDir(dir.FS(), TakenDir, func(at string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrPermission):
			return fs.SkipDir
		case err != nil || !d.IsDir():
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		uid, _, err := ownerOf(info)
		if err == nil && uid != os.Geteuid() && os.Geteuid() != 0 {
			err = fmt.Errorf("%q in it belongs to user %d", at, uid)
		}
		return err
	})
}

// moveAway gives a record the name of one that is being removed, in one step:
// it is there whole, or it isn't.
func moveAway(path string) (string, error) {
	parent, name := filepath.Split(path)
	if strings.HasPrefix(name, gonePrefix) {
		return path, nil
	}
	gone := filepath.Join(parent, gonePrefix+name)
	if err := RemoveTree(gone); err != nil {
		return "", err
	}
	return gone, os.Rename(path, gone)
}

// RemoveTree removes a directory that a command has written, which may have
// left directories without any permission in it. It follows no link.
func RemoveTree(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	root, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // read only
	// WalkDir follows no link.
	_ = fs.WalkDir(root.FS(), filepath.Base(dir), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			_ = root.Chmod(path, 0o700) //nolint:gosec // a directory
		}
		return nil
	})
	return os.RemoveAll(dir)
}
