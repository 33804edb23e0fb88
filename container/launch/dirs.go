package launch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

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
}

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
	for _, dir := range []string{d.Handover, d.Scratch, d.Relays} {
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o755)); err != nil { //nolint:gosec // its parent is nobody else's
			return d, errors.Join(fmt.Errorf("cannot make a directory for the container: %w", err), d.Remove())
		}
	}
	return d, nil
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
	if err := os.RemoveAll(d.Root); err != nil {
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
