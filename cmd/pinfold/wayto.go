package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// maxHops is how many symbolic links a path may cross, path_resolution(7).
const maxHops = 40

// wayTo resolves an absolute path name by name: what it leads to, and the
// links that it crosses, each by its canonical directory and its own name. An
// error comes with the links crossed so far, and the canonical path up to
// where nothing more was found.
func wayTo(path string) (real string, links []string, err error) {
	real = "/"
	todo := strings.Split(path, "/")
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		if name == ".." {
			real = filepath.Dir(real)
			continue
		}
		next := filepath.Join(real, name) // "" and "." too
		info, err := os.Lstat(next)
		if err != nil {
			return next, links, err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			real = next
			continue
		}
		if links = append(links, next); len(links) > maxHops {
			return real, links, &fs.PathError{Op: "open", Path: path, Err: syscall.ELOOP}
		}
		target, err := os.Readlink(next)
		if err != nil {
			return real, links, err
		}
		if filepath.IsAbs(target) {
			real = "/"
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return real, links, nil
}
