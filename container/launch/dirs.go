package launch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"pinfold/stub"
)

// DirsName is where the directories of launches lie beneath a state directory.
const DirsName = "containers"

// Dirs are the directories of one launch on the host. Its container has them
// mounted, so they stay until that is removed.
type Dirs struct {
	Root     string // of mode 0700: nobody else comes by
	Handover string // with the supervisor's socket
	Scratch  string // with the covers
	Relays   string // with the sockets that stand in for others

	// lock is held while the launch that made them lives.
	lock *os.File
}

// NotesName is the file in Dirs.Root that the stub writes to, whether anybody
// listens or not: the notes of package wire.
const NotesName = "notes"

// MakeDirs makes them beneath the state directory.
func MakeDirs(state string) (Dirs, error) {
	parent := filepath.Join(state, DirsName)
	err := os.Mkdir(parent, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return Dirs{}, fmt.Errorf("cannot make a directory for the container: %w", err)
	}
	root, err := os.MkdirTemp(parent, "")
	if err != nil {
		return Dirs{}, fmt.Errorf("cannot make a directory for the container: %w", err)
	}
	d := DirsAt(root)
	if d.lock, err = lockedDir(root); err != nil {
		return d, errors.Join(fmt.Errorf("cannot make a directory for the container: %w", err), d.Remove())
	}
	for _, dir := range []string{d.Handover, d.Scratch, d.Relays} {
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o755)); err != nil { //nolint:gosec // its parent is nobody else's
			return d, errors.Join(fmt.Errorf("cannot make a directory for the container: %w", err), d.Remove())
		}
	}
	return d, nil
}

func lockedDir(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// keepsName is the file in Dirs.Root that lists directories which lie
// elsewhere, and which a container has mounted.
const keepsName = "keeps"

// keep notes directories that were made for the launch. They must outlive it
// as long as its container does, which may be longer than its supervisor.
func (d Dirs) keep(paths []string) error {
	text := strings.Join(paths, "\x00")
	if err := os.WriteFile(filepath.Join(d.Root, keepsName), []byte(text), 0o600); err != nil {
		return fmt.Errorf("cannot note what the container has mounted: %w", err)
	}
	return nil
}

// Kept are the directories that containers of a state directory may have
// mounted, and that nobody must remove.
func Kept(state string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(globQuote(state), DirsName, "*", keepsName))
	if err != nil {
		return nil, fmt.Errorf("cannot tell what containers have mounted: %w", err)
	}
	var out []string
	for _, name := range files {
		b, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot tell what containers have mounted: %w", err)
		}
		out = append(out, strings.Split(string(b), "\x00")...)
	}
	return out, nil
}

// globQuote has a path stand for itself in a pattern, filepath.Match.
func globQuote(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// DirsAt are the directories of a launch by their root.
func DirsAt(root string) Dirs {
	return Dirs{Root: root, Handover: filepath.Join(root, "handover"), Scratch: filepath.Join(root, "scratch"), Relays: filepath.Join(root, "relays")}
}

// Remove takes them away. Covers have modes that nobody can look into.
func (d Dirs) Remove() error {
	if d.Root == "" {
		return nil
	}
	_ = filepath.WalkDir(d.Root, func(path string, e fs.DirEntry, err error) error {
		if e != nil && e.IsDir() {
			_ = os.Chmod(path, 0o700) //nolint:gosec // ours, about to go
			if err != nil {
				return removeBelow(path)
			}
		}
		return nil
	})
	err := os.RemoveAll(d.Root)
	if d.lock != nil {
		err = errors.Join(err, d.lock.Close())
	}
	if err != nil {
		return fmt.Errorf("cannot remove the container's directories: %w", err)
	}
	return nil
}

// removeBelow empties a directory that couldn't be read when its turn came.
func removeBelow(dir string) error {
	_ = os.RemoveAll(dir)
	return fs.SkipDir
}

// Stub puts the stub where an engine can mount it from, and says its digest.
// It stays there for later launches.
func Stub(state, arch string) (path, sum string, err error) {
	want, err := stub.Digest(arch)
	if err != nil {
		return "", "", err
	}
	dir := filepath.Join(state, DirsName)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", "", fmt.Errorf("cannot keep the stub: %w", err)
	}
	path = filepath.Join(dir, "stub-"+want)
	if got, err := digestOf(path); err == nil && got == want {
		return path, want, nil
	}
	return path, want, writeStub(dir, path, arch)
}

func digestOf(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// writeStub writes it whole under another name, since a launch may be using
// the one that is there.
func writeStub(dir, path, arch string) error {
	b, err := stub.Binary(arch)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".stub-")
	if err != nil {
		return fmt.Errorf("cannot keep the stub: %w", err)
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Chmod(0o555), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("cannot keep the stub: %w", err), os.Remove(f.Name()))
	}
	return nil
}
