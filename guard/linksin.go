package guard

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
)

// maxListed bounds how much of a denied directory is listed for its links.
const maxListed = 10_000

// linksOf are the symbolic links among what an open directory holds, by the
// types that the directory itself keeps.
func linksOf(f *os.File) ([]string, error) {
	entries, err := f.ReadDir(maxListed)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("cannot list %q: %w", f.Name(), err)
	}
	var out []string
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 {
			out = append(out, e.Name())
		}
	}
	slices.Sort(out)
	return out, nil
}
