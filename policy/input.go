package policy

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ReadInput reads at most limit bytes of a file that somebody named or that
// was found: a regular one, or whatever one of our own descriptors is (a
// shell's <(…) is a pipe). Another kind could take for ever, or be written by
// anybody at any time.
func ReadInput(path string, limit int64) ([]byte, error) {
	flags := os.O_RDONLY
	own := isDescriptor(path)
	if !own {
		flags |= syscall.O_NONBLOCK // open(2) of a FIFO waits for a writer
	}
	f, err := os.OpenFile(path, flags, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, errors.New("it is a directory")
	case !own && !info.Mode().IsRegular():
		return nil, errors.New("it is no regular file")
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

// maxLinks is how many links a path may cross, path_resolution(7).
const maxLinks = 40

// isDescriptor reports a path that is only a name of one of our descriptors,
// such as /dev/stdin.
func isDescriptor(path string) bool {
	for range maxLinks {
		if strings.HasPrefix(path, "/proc/") || strings.HasPrefix(path, "/dev/fd/") {
			return true
		}
		target, err := os.Readlink(path)
		if err != nil {
			return false
		}
		if !filepath.IsAbs(target) { // /dev/stdin may be fd/0
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return false
}
