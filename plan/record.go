package plan

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"pinfold/policy"
)

// The files of a record.
const (
	planFile    = "plan.json"
	rootFile    = "root"
	exitFile    = "exit"
	journalFile = "journal"
	profileFile = "profile.sb"
)

var recordFiles = []string{planFile, containerFile, rootFile, exitFile, journalFile, profileFile}

// Record is the record of one launch while it is written: a directory that
// belongs to this launch alone, and to no grant. Each file is written whole
// under another name and then renamed, and never written again. Nothing is
// flushed to the disk: a machine that crashes has no process left to adopt.
//
// The directory is locked until Close, and by the kernel's own hand no longer
// than its process lives: see [IsHeld].
type Record struct {
	dir    *os.Root
	lock   *os.File
	path   string
	pinned uint64 // clock ticks since boot
}

// CreateRecord makes the directory of a record, or takes an empty one that is
// the caller's alone. Its parent must exist.
func CreateRecord(path string) (*Record, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("cannot make record %q: %w", path, err)
	}
	if err := os.Mkdir(abs, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("cannot make record %q: %w", abs, err)
	}
	dir, err := openPrivate(abs)
	if err != nil {
		return nil, recordRefusal(abs, "record_unsafe", err)
	}
	lock, err := lockDir(dir)
	if err == nil {
		err = checkEmpty(dir)
	}
	if err != nil {
		if lock != nil {
			err = errors.Join(err, lock.Close())
		}
		return nil, recordRefusal(abs, "record_in_use", errors.Join(err, dir.Close()))
	}
	return &Record{dir: dir, lock: lock, path: abs}, nil
}

// CheckRecord refuses what [CreateRecord] does of a directory that is there,
// in use or not.
func CheckRecord(path string) error {
	abs, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Lstat(abs)
	}
	if err != nil {
		return fmt.Errorf("cannot look at record %q: %w", path, err)
	}
	dir, err := openPrivate(abs)
	if err != nil {
		return recordRefusal(abs, "record_unsafe", err)
	}
	return dir.Close()
}

func recordRefusal(path, code string, err error) error {
	return &policy.Refusal{
		Reason: policy.Denied, Code: code, Subject: path,
		Why: fmt.Sprintf("cannot keep the record in %q: %v", path, err),
		Fix: "name a directory that doesn't exist yet, or an empty one of mode 0700 that is yours", Err: err,
	}
}

// openPrivate opens a directory that nobody else can look into or change.
func openPrivate(path string) (*os.Root, error) {
	before, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	dir, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	after, err := dir.Stat(".")
	if err == nil {
		err = checkPrivate(before, after)
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}

// checkPrivate compares the directory by its name with the one opened.
func checkPrivate(before, after fs.FileInfo) error {
	uid, _, err := ownerOf(after)
	switch {
	case err != nil:
		return err
	case !before.IsDir():
		return errors.New("it is no directory")
	case !os.SameFile(before, after):
		return errors.New("it was replaced while it was opened")
	case uid != os.Geteuid():
		return fmt.Errorf("it belongs to user %d", uid)
	case after.Mode().Perm() != 0o700:
		return fmt.Errorf("its mode is %04o, wanted 0700", after.Mode().Perm())
	}
	return nil
}

func checkEmpty(dir *os.Root) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	names, err := f.Readdirnames(1)
	err = errors.Join(ignoreEOF(err), f.Close())
	if err == nil && len(names) > 0 {
		err = fmt.Errorf("it holds %q already, and a record belongs to one launch", names[0])
	}
	return err
}

func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// Path is the record's directory.
func (r *Record) Path() string { return r.path }

// Close lets go of the directory; what is written stays.
func (r *Record) Close() error { return errors.Join(r.lock.Close(), r.dir.Close()) }

// Pin writes the plan, before anything starts, and answers its digest.
func (r *Record) Pin(p *Plan) (string, error) {
	b, err := p.Canonical()
	if err != nil {
		return "", err
	}
	return r.pin(b)
}

func (r *Record) pin(b []byte) (string, error) {
	// Read before the plan is written: whatever starts afterwards is younger.
	pinned, err := bootTicks()
	if err != nil {
		return "", err
	}
	if err := r.write(planFile, b); err != nil {
		return "", err
	}
	r.pinned = pinned // one writer alone gets here
	return digestOf(b), nil
}

// SetAside makes room for another plan where nothing came of the one that was
// pinned: it stays beside, as "plan.N.json".
func (r *Record) SetAside(n int) error {
	aside := fmt.Sprintf("plan.%d.json", n)
	for _, name := range []string{rootFile, exitFile, aside} {
		if _, err := r.dir.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot set the plan of record %q aside: it holds %q", r.path, name)
		}
	}
	if err := r.dir.Rename(planFile, aside); err != nil {
		return fmt.Errorf("cannot set the plan of record %q aside: %w", r.path, err)
	}
	return nil
}

// WriteProfile writes a sandbox profile, which a program outside of the
// boundary reads by its name, and answers that.
func (r *Record) WriteProfile(text []byte) (path string, err error) {
	return filepath.Join(r.path, profileFile), r.write(profileFile, text)
}

// WriteRoot writes what runs.
func (r *Record) WriteRoot(root Root) error {
	root.Pinned = r.pinned
	return r.writeJSON(rootFile, root)
}

// WriteExit writes how it ended.
func (r *Record) WriteExit(e Exit) error { return r.writeJSON(exitFile, e) }

func (r *Record) writeJSON(name string, v any) error {
	b, err := encode(v)
	if err != nil {
		return fmt.Errorf("cannot write %q: %w", filepath.Join(r.path, name), err)
	}
	return r.write(name, append(b, '\n'))
}

// write makes one file, whole and once. The name that it is written under is
// a lock as well: while one writer has it, no other can finish the same file.
func (r *Record) write(name string, b []byte) error {
	err := r.writeOnce(name, b)
	if err == nil {
		return nil
	}
	path := filepath.Join(r.path, name)
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "record_unwritable", Subject: path,
		Why: fmt.Sprintf("cannot write %q: %v", path, err),
		Fix: "make room on that file system, or name a directory on another one with --record DIR or --state DIR", Err: err,
	}
}

func (r *Record) writeOnce(name string, b []byte) error {
	temporary := temporaryName(name)
	f, err := r.dir.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	err = errors.Join(err, f.Chmod(0o400), f.Close()) // whatever the umask was
	if err == nil {
		_, err = r.dir.Lstat(name)
		switch {
		case err == nil:
			err = fs.ErrExist
		case errors.Is(err, fs.ErrNotExist):
			err = r.dir.Rename(temporary, name)
		}
	}
	if err != nil {
		return errors.Join(err, r.dir.Remove(temporary))
	}
	return nil
}

// Journal opens the journal for adding to it.
func (r *Record) Journal() (*Journal, error) {
	f, err := r.dir.OpenFile(journalFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the journal of %q: %w", r.path, err)
	}
	return &Journal{f: f}, nil
}

// Journal is added to while a launch runs, one JSON line at a time.
type Journal struct{ f *os.File }

// Add writes one step, in one write(2): lines of several writers don't mix.
func (j *Journal) Add(s Step) error {
	b, err := encode(s)
	if err == nil {
		_, err = j.f.Write(append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("cannot write the journal: %w", err)
	}
	return nil
}

// Close closes the journal.
func (j *Journal) Close() error { return j.f.Close() }
