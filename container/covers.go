package container

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"pinfold/stub/wire"
)

// Covers are the empty files and directories that denied paths are covered
// with, beneath [Options.Scratch].
type Covers []Cover

// Cover is one of them, or a mount point in one.
type Cover struct {
	Name    string // relative to Scratch, parents first
	Dir     bool
	Mode    fs.FileMode
	Content []byte
	// Inside is where it is mounted; "" for a mount point in another one.
	Inside string
}

// Make makes the covers in a directory that has none yet, and says how the
// stub recognises each: a mount of that very object, read-only. Modes are set
// last, deepest first, since a directory of mode 0000 takes no more entries.
func (c Covers) Make(scratch string) (checks []wire.Check, err error) {
	root, err := os.OpenRoot(scratch)
	if err != nil {
		return nil, fmt.Errorf("cannot make covers: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	for _, cover := range c {
		if err := cover.make(root); err != nil {
			return nil, fmt.Errorf("cannot make cover %q: %w", cover.Name, err)
		}
	}
	for i := len(c) - 1; i >= 0; i-- {
		check, err := c[i].finish(root)
		if err != nil {
			return nil, fmt.Errorf("cannot make cover %q: %w", c[i].Name, err)
		}
		if c[i].Inside != "" {
			checks = append(checks, check)
		}
	}
	return checks, nil
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

// finish sets the mode and names the object.
func (c Cover) finish(root *os.Root) (wire.Check, error) {
	st, err := root.Lstat(c.Name)
	if err != nil {
		return wire.Check{}, err
	}
	s, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return wire.Check{}, errors.New("cannot tell its inode")
	}
	check := wire.Check{Kind: wire.CheckBind, Path: c.Inside, Dev: uint64(s.Dev), Ino: s.Ino, ReadOnly: true} //nolint:unconvert // Dev is signed on some systems
	return check, root.Chmod(c.Name, c.Mode)
}
