package guard

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
)

// maxListed bounds how much of a directory is listed for its links.
const maxListed = 10_000

// linksOf are the symbolic links, and the directories, among what an open
// directory holds, by the types that the directory itself keeps.
func linksOf(f *os.File) (links, dirs []string, err error) {
	entries, err := f.ReadDir(maxListed)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, fmt.Errorf("cannot list %q: %w", f.Name(), err)
	}
	for _, e := range entries {
		switch {
		case e.Type()&fs.ModeSymlink != 0:
			links = append(links, e.Name())
		case e.IsDir():
			dirs = append(dirs, e.Name())
		}
	}
	slices.Sort(links)
	slices.Sort(dirs)
	return links, dirs, nil
}
