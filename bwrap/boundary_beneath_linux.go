package bwrap

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"pinfold/guard"
)

// maxBeneath bounds what is looked at in a directory that is covered anew:
// 20,000 entries take a tenth of a second, in which everything inside stands.
const maxBeneath = 20000

// survey is what lies in a directory that came to be at a covered path, where
// the command could have reached it before all stood still.
type survey struct {
	ids map[guard.FileID]bool
	// links are the names of a file that are still to be found.
	links map[guard.FileID]int64
	names map[guard.FileID]string
}

// surveyBeneath goes through a directory, by descriptors, following no link and
// entering no other file system, and refuses what could be reached by another
// way than through it: a file with a name elsewhere, which could be written
// after the cover is back.
func surveyBeneath(dir int, path string) (map[guard.FileID]bool, error) {
	s := &survey{ids: map[guard.FileID]bool{}, links: map[guard.FileID]int64{}, names: map[guard.FileID]string{}}
	if err := s.enter(dir, ".", path, 0); err != nil {
		return nil, err
	}
	for id, left := range s.links {
		if left > 0 {
			return nil, otherName(s.names[id])
		}
	}
	return s.ids, nil
}

func otherName(path string) error {
	return fmt.Errorf("%q has another name, by which it could be written", path)
}

func (s *survey) enter(dir int, name, path string, depth int) error {
	if depth > maxDepth {
		return errors.New("it is nested too deep to be looked through")
	}
	fd, err := openBelow(dir, name)
	if err != nil {
		return ignoreGone(err)
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	for {
		list, err := f.Readdirnames(256)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, entry := range list {
			if err := s.see(fd, entry, filepath.Join(path, entry), depth); err != nil {
				return err
			}
		}
	}
}

func (s *survey) see(dir int, name, path string, depth int) error {
	st, err := statPoint(dir, name)
	if err != nil {
		return ignoreGone(err)
	}
	if len(s.ids) >= maxBeneath {
		return fmt.Errorf("more than %d entries lie in it", maxBeneath)
	}
	id := guard.FileID{Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		s.ids[id] = true
		return s.enter(dir, name, path, depth+1)
	}
	if !s.ids[id] {
		s.ids[id], s.links[id], s.names[id] = true, int64(st.Nlink), path
	}
	s.links[id]--
	return nil
}
