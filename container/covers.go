package container

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Covers are the empty files and directories that denied paths are covered
// with, beneath [Options.Scratch].
type Covers []Cover

// Cover is one of them.
type Cover struct {
	Name    string // relative to Scratch, parents first
	Dir     bool
	Mode    fs.FileMode
	Content []byte
}

// Make makes the covers in a directory that has none yet. Modes are set last,
// deepest first, since a directory of mode 0000 takes no more entries.
func (c Covers) Make(scratch string) (err error) {
	root, err := os.OpenRoot(scratch)
	if err != nil {
		return fmt.Errorf("cannot make covers: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	for _, cover := range c {
		if err := cover.make(root); err != nil {
			return fmt.Errorf("cannot make cover %q: %w", cover.Name, err)
		}
	}
	for i := len(c) - 1; i >= 0; i-- {
		if err := root.Chmod(c[i].Name, c[i].Mode); err != nil {
			return fmt.Errorf("cannot make cover %q: %w", c[i].Name, err)
		}
	}
	return nil
}

func (c Cover) make(root *os.Root) error {
	if c.Dir {
		return root.Mkdir(c.Name, 0o700)
	}
	f, err := root.OpenFile(c.Name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(c.Content)
	return errors.Join(err, f.Close())
}
