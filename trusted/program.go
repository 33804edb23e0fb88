package trusted

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Program follows an absolute path to a program, and checks everything on the
// way: what forbidden names, and what users other than root and the caller can
// write, is an error. A path where nothing stands is fs.ErrNotExist.
func Program(path string, forbidden func(path string) bool) (string, fs.FileInfo, error) {
	if !filepath.IsAbs(path) {
		return "", nil, fmt.Errorf("%q is relative", path)
	}
	found, info, err := Follow(path, func(step string, info fs.FileInfo) error {
		if forbidden != nil && forbidden(step) {
			return fmt.Errorf("%q can be written from inside", step)
		}
		if why := writableByOthers(info, os.Geteuid()); why != "" {
			return fmt.Errorf("%q %s", step, why)
		}
		return nil
	})
	switch {
	case err != nil:
		return "", nil, err
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return "", nil, fmt.Errorf("%q is not executable", found)
	}
	return found, info, nil
}

// maxLinks is how many symbolic links the kernel follows: path_resolution(7).
const maxLinks = 40

// Follow resolves a path component by component and visits everything that
// it passes: directories, links, and what it ends at.
func Follow(path string, visit func(string, fs.FileInfo) error) (string, fs.FileInfo, error) {
	at, rest, links := "/", strings.Split(path, "/"), 0
	info, err := os.Lstat(at)
	if err != nil {
		return "", nil, err
	}
	for err = visit(at, info); err == nil && len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == "" || name == "." {
			continue
		}
		next := filepath.Join(at, name)
		if info, err = os.Lstat(next); err != nil {
			break
		}
		if err = visit(next, info); err != nil {
			break
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", nil, fmt.Errorf("%q has too many symbolic links", path)
		}
		var target string
		if target, err = os.Readlink(next); err != nil {
			break
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	if err != nil {
		return "", nil, err
	}
	return at, info, nil
}
