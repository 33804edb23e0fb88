package policy

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ReadInput reads at most limit bytes of a file that somebody named or that
// was found: a regular one, or whatever one of our own descriptors is (a
// shell's <(…) is a pipe). Another kind could take for ever, or be written by
// anybody at any time.
func ReadInput(path string, limit int64) ([]byte, error) {
	own := isDescriptor(path)
	if err := regularFile(os.Stat(path)); err != nil && !own {
		return nil, err // before it is opened: that of a FIFO waits for a writer
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if err := regularFile(f.Stat()); err != nil && (!own || errors.Is(err, errDirectory)) {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, limit))
}

var errDirectory = errors.New("it is a directory")

// regularFile refuses what isn't a regular file.
func regularFile(info fs.FileInfo, err error) error {
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return errDirectory
	case !info.Mode().IsRegular():
		return errors.New("it is no regular file")
	}
	return nil
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
