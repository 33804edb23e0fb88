package cgroup

import (
	"os"

	"golang.org/x/sys/unix"
)

// system is the kernel itself.
type system struct{}

func (system) ReadFile(name string) ([]byte, error) { return os.ReadFile(name) }

func (system) WriteFile(name, text string) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

func (system) Mkdir(name string) error { return os.Mkdir(name, 0o755) }

// Remove is rmdir(2) and nothing else: a cgroup is full of files.
func (system) Remove(name string) error {
	if err := unix.Rmdir(name); err != nil {
		return &os.PathError{Op: "rmdir", Path: name, Err: err}
	}
	return nil
}

func (system) List(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

func (system) Writable(dir string) bool {
	return unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS) == nil
}
