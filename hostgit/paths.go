package hostgit

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// errNoPointer: a .git that is a file names no directory, so that git finds no
// repository there either.
var errNoPointer = errors.New("it names no git directory")

// errCrooked: what a path with ".." after a name means depends on whether the
// name is a link.
var errCrooked = errors.New(`".." stands behind a name in it`)

// maxPointer bounds what is read of a .git, a commondir or a gitdir file.
const maxPointer = 64 << 10

func isNotDir(err error) bool { return errors.Is(err, syscall.ENOTDIR) }

// missing reports whether nothing stands at a path.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) || isNotDir(err) }

// beneath reports whether a path is another one, or beneath it.
func beneath(path, parent string) bool {
	return path == parent || parent == "/" || strings.HasPrefix(path, parent+"/")
}

// named reports whether a path has a component that git never puts into a work
// tree. A file system that ignores case does so here too.
func named(path string) bool {
	return slices.ContainsFunc(strings.Split(path, "/"), func(s string) bool { return strings.EqualFold(s, ".git") })
}

// crooked reports whether ".." stands behind a name.
func crooked(path string) bool {
	passed := false
	for part := range strings.SplitSeq(path, "/") {
		switch part {
		case "", ".":
		case "..":
			if passed {
				return true
			}
		default:
			passed = true
		}
	}
	return false
}

// resolved follows the links of a path as far as something stands there; the
// rest is what is still to be made.
func resolved(path string) string {
	const maxLinks = 40
	for range maxLinks {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return real
		}
		dir := filepath.Dir(path)
		target, err := os.Readlink(path)
		switch {
		case err != nil && dir == path:
			return path
		case err != nil:
			return filepath.Join(resolved(dir), filepath.Base(path))
		case filepath.IsAbs(target):
			path = target
		default:
			path = filepath.Join(dir, target)
		}
	}
	return path
}

// readSmall reads a file of one line, and leaves out how the line ends.
func readSmall(path string) (string, error) {
	there, err := isFile(path)
	if err != nil {
		return "", err
	}
	if !there {
		return "", fs.ErrNotExist
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // read only
	b, err := io.ReadAll(io.LimitReader(f, maxPointer+1))
	if err == nil && len(b) > maxPointer {
		err = errors.New("it is too long")
	}
	return strings.TrimRight(string(b), "\r\n"), err
}

// pointed reads a file that names a path, after a prefix. A relative one
// starts at the file's directory.
func pointed(file, prefix string) (string, error) {
	text, err := readSmall(file)
	if err != nil {
		return "", err
	}
	path, ok := strings.CutPrefix(text, prefix)
	switch {
	case !ok || path == "":
		return "", errNoPointer
	case crooked(path):
		return "", fmt.Errorf("cannot follow %q: %w", file, errCrooked)
	case filepath.IsAbs(path):
		return path, nil
	}
	return filepath.Join(resolved(filepath.Dir(file)), path), nil
}

// pointer answers which git directory a .git is, or names.
func pointer(file string) (string, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil && missing(err):
		return "", fs.ErrNotExist
	case err != nil:
		return "", err
	case info.IsDir():
		return file, nil
	}
	return pointed(file, "gitdir: ")
}

// read are files of a git directory that git opens whatever they are. It would
// wait for ever for the other end of a pipe.
const read = "HEAD config config.worktree commondir gitdir index packed-refs shallow info/attributes info/exclude info/sparse-checkout objects/info/alternates"

// odd answers which of those is neither a file nor a directory, or "".
func odd(gitDir string) string {
	null, err := os.Stat(os.DevNull)
	for _, name := range strings.Fields(read) {
		path := filepath.Join(gitDir, name)
		info, missing := os.Stat(path)
		if missing == nil && !info.Mode().IsRegular() && !info.IsDir() && (err != nil || !os.SameFile(info, null)) {
			return path
		}
	}
	return ""
}

// nearest are the git directories that git would come to from a place, itself
// among them if it looks like one.
func nearest(place string) []string {
	var out []string
	if info, err := os.Stat(filepath.Join(place, "objects")); err == nil && info.IsDir() {
		out = append(out, place)
	}
	for up := resolved(place); ; up = filepath.Dir(up) {
		if gitDir, err := pointer(filepath.Join(up, ".git")); err == nil {
			common, err := pointed(filepath.Join(gitDir, "commondir"), "")
			if err != nil {
				common = gitDir
			}
			return append(out, gitDir, common)
		}
		if up == filepath.Dir(up) {
			return out
		}
	}
}
