package persist

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// place is a directory to go through.
type place struct {
	dir   string
	depth int
	// what runs all that is in it, and how many names that takes from here.
	what  string
	names int
	// moved: it, or one that it is in, wasn't there before under this name.
	moved bool
}

// walk goes through a tree, what is near the top first: there lies most of
// what is run, and the time may not be enough for all.
func (s *search) walk(root string) {
	p := begins(root)
	if info, err := os.Lstat(root); err == nil && !info.IsDir() {
		if p.what != "" {
			s.judge(root, p.what, p.names, false)
		}
		return
	}
	queue := []place{p}
	for len(queue) > 0 {
		p := queue[0]
		if p.depth > 0 && s.late() {
			return
		}
		queue = queue[1:]
		if p.depth > maxDepth {
			s.Partial = true
			continue
		}
		queue = s.through(p, queue)
	}
}

// begins is where a search starts: what is granted may itself be run, or lie
// in a directory of which all is.
func begins(root string) place {
	for dir, n := root, 0; dir != filepath.Dir(dir); dir, n = filepath.Dir(dir), n+1 {
		if what, depth := whatRuns(dir, false); what != "" {
			return place{dir: root, what: what, names: depth + n}
		}
	}
	return place{dir: root}
}

// late ends the search when its time is over.
func (s *search) late() bool {
	if time.Now().Before(s.deadline) {
		return false
	}
	s.Partial = true
	return true
}

// through looks at what one directory holds, and queues the directories in it.
func (s *search) through(p place, queue []place) []place {
	f, err := os.Open(p.dir)
	if err != nil {
		s.unread(p.dir, err)
		return queue
	}
	defer f.Close()
	var in uint64
	if st, err := lookAt(p.dir); err == nil {
		in = st.ino
	}
	for n := 0; ; n++ {
		entries, err := f.ReadDir(batch)
		for _, e := range entries {
			if q := s.entry(p, in, e); q != nil {
				queue = append(queue, *q)
			}
		}
		if err != nil || (p.depth > 0 || n >= topBatches) && s.late() {
			return queue
		}
	}
}

// entry looks at one name, and answers the directory to enter, if it is one.
func (s *search) entry(p place, in uint64, e os.DirEntry) *place {
	path := filepath.Join(p.dir, e.Name())
	link := e.Type()&os.ModeSymlink != 0
	what, depth := whatRuns(path, link)
	if what == "" && p.what != "" {
		what, depth = p.what, p.names+1
	}
	switch {
	case e.Name() == ".git":
		s.repository(path, e.IsDir(), p.moved || s.moved(path, in))
	case e.IsDir():
		if !notEntered(e.Name()) && !s.seen[path] {
			return &place{path, p.depth + 1, what, depth, p.moved || s.moved(path, in)}
		}
	case e.Name() == "HEAD":
		s.bare(p, in)
	case what != "":
		s.judge(path, what, depth, p.moved)
	}
	return nil
}

// moved reports whether a directory has got its name, or its place, since the
// beginning. A rename changes its status, and what is in it keeps its own.
func (s *search) moved(path string, in uint64) bool {
	st, err := lookAt(path)
	if err != nil || s.isEarlier(st.changed) {
		return false
	}
	return s.Places != nil && s.Places.Complete() && !s.Places.Had(in, st.ino, filepath.Base(path))
}

// judge reports a file that is new or changed, or whose directory was moved.
func (s *search) judge(path, what string, depth int, moved bool) {
	change := s.change(path)
	if moved {
		change = New
	}
	if change == "" || filepath.Base(path) == "package.json" && !hasScripts(path) {
		return
	}
	s.found(Finding{path, change, what, s.levelOf(path, depth)})
}

func (s *search) change(path string) string {
	st, err := lookAt(path)
	switch {
	case err != nil:
		s.Partial = s.Partial || !isGone(err)
		return ""
	case s.isEarlier(st.changed):
		return ""
	case !st.born.IsZero() && !s.isEarlier(st.born):
		return New
	}
	return Changed
}

// unread is a directory that can't be listed, while what is in it may be run
// by name all the same (path_resolution(7): that takes no right to read). One
// that changed is a finding, since the command may have made it so.
func (s *search) unread(dir string, err error) {
	if isGone(err) {
		return
	}
	switch change := s.change(dir); {
	case change != "":
		s.found(Finding{dir, change, unlisted, s.levelOf(dir, 1)})
	case unix.Access(dir, unix.X_OK) == nil:
		s.Partial = true
	}
}

// isGone reports that there is no such directory, or no directory any more.
func isGone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}
