package plan

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxFile bounds what is read of a record: a plan of 300 mounts with
// paths of 4,096 bytes stays well below.
const maxFile = 16 << 20

// Stored is a record as it was read, its plan proven to be what was pinned
// if Digest is the one that the reader knows.
type Stored struct {
	Path   string
	Plan   *Plan
	Digest string // of the bytes of plan.json
	// Container is nil in the other tiers, and until one was made.
	Container *Container
	Root      *Root // nil: nothing was started yet
	Exit      *Exit // nil: it runs, or was killed with its supervisor
	Steps     []Step
}

// ReadRecord reads a record, and refuses one that anybody else could have
// written: it must be a directory of the caller's own, of mode 0700, with
// files of mode 0400 that have one name.
func ReadRecord(path string) (*Stored, error) {
	s, err := readRecord(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read record %q: %w", path, err)
	}
	return s, nil
}

func readRecord(path string) (*Stored, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	dir, err := openPrivate(abs)
	if err != nil {
		return nil, err
	}
	defer dir.Close() //nolint:errcheck // read only
	b, err := readFile(dir, planFile, 0o400)
	if err != nil {
		return nil, err
	}
	s := &Stored{Path: abs, Digest: digestOf(b)}
	if s.Plan, err = Parse(b); err != nil {
		return nil, err
	}
	if s.Container, err = readJSON[Container](dir, containerFile); err != nil {
		return nil, err
	}
	if s.Root, err = readJSON[Root](dir, rootFile); err != nil {
		return nil, err
	}
	if s.Exit, err = readJSON[Exit](dir, exitFile); err != nil {
		return nil, err
	}
	if s.Root != nil && s.Root.Digest != s.Digest {
		return nil, fmt.Errorf("%s is of plan %s, but %s is %s", rootFile, s.Root.Digest, planFile, s.Digest)
	}
	if s.Container != nil && s.Container.Digest != s.Digest {
		return nil, fmt.Errorf("%s is of plan %s, but %s is %s", containerFile, s.Container.Digest, planFile, s.Digest)
	}
	s.Steps, err = readJournal(dir)
	return s, err
}

// readJSON reads a file that may be missing.
func readJSON[T any](dir *os.Root, name string) (*T, error) {
	b, err := readFile(dir, name, 0o400)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // missing is an answer: not written yet
	}
	if err != nil {
		return nil, err
	}
	v := new(T)
	if err := decode(b, v); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return v, nil
}

// readJournal leaves out a last line that a crash cut short.
func readJournal(dir *os.Root) ([]Step, error) {
	b, err := readFile(dir, journalFile, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var steps []Step
	for line := range bytes.Lines(b) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var s Step
		if err := decode(line, &s); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", journalFile, len(steps)+1, err)
		}
		steps = append(steps, s)
	}
	return steps, nil
}

func readFile(dir *os.Root, name string, mode fs.FileMode) ([]byte, error) {
	// os.Root follows links that stay inside, O_NOFOLLOW or not.
	named, err := dir.Lstat(name)
	if err != nil {
		return nil, err
	}
	f, err := dir.OpenFile(name, os.O_RDONLY|nonBlock, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !os.SameFile(named, info) {
		return nil, fmt.Errorf("%s: it is a link", name)
	}
	if err := checkFile(info, mode); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = fmt.Errorf("%s: more than %d bytes", name, maxFile)
	}
	return b, err
}

func checkFile(info fs.FileInfo, mode fs.FileMode) error {
	uid, links, err := ownerOf(info)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("it is no regular file")
	case uid != os.Geteuid():
		return fmt.Errorf("it belongs to user %d", uid)
	case info.Mode().Perm() != mode:
		return fmt.Errorf("its mode is %04o, wanted %04o", info.Mode().Perm(), mode)
	case links != 1:
		return fmt.Errorf("it has %d names", links)
	}
	return nil
}
