package persist

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The bounds of one report.
const (
	maxFindings = 200
	maxDepth    = 64
	maxRead     = 1 << 20 // of a package.json
	batch       = 512     // entries read at once
	topBatches  = 40      // of a tree's top directory, which is looked at even when late
)

// The changes.
const (
	New     = "new"
	Changed = "changed"
)

// Finding is one file that will be run later.
type Finding struct {
	Path   string
	Change string // New or Changed
	What   string // who runs it
	level  int    // how far from the workspace's top the name begins
}

// Report is what was found.
type Report struct {
	Findings []Finding
	// Partial: the bounds ended the search.
	Partial bool
}

// Watch remembers how things were when it began.
type Watch struct {
	began time.Time
	repo  string
	links chan map[string]bool // the gitlinks of the repository
	// Places tell which directories were moved; nil where nobody knows.
	Places Places
}

// Begin begins, and reads the workspace's list of gitlinks meanwhile.
func Begin(workspace string) *Watch {
	w := &Watch{began: stamp(), repo: workspace, links: make(chan map[string]bool, 1)}
	go func() { w.links <- gitlinks(filepath.Join(workspace, ".git/index")) }()
	return w
}

// Began waits until all is remembered that the command could change. What has
// changed up to here is not of its doing.
func (w *Watch) Began() {
	w.before()
	w.began = stamp()
}

// grains are what file systems cut times to: FAT and ext4 with small inodes,
// exFAT, UDF, NTFS.
func grains() []time.Duration {
	return []time.Duration{2 * time.Second, time.Second, 10 * time.Millisecond, time.Microsecond, 100 * time.Nanosecond}
}

// isEarlier reports whether a time of a file's is before the beginning, as
// exactly as its file system keeps that.
func (w *Watch) isEarlier(at time.Time) bool {
	for _, grain := range grains() {
		if at.Truncate(grain).Equal(at) {
			return at.Before(w.began.Truncate(grain))
		}
	}
	return at.Before(w.began)
}

// before is what was remembered; it stays.
func (w *Watch) before() map[string]bool {
	links := <-w.links
	w.links <- links
	return links
}

// Places are the directories that were there before, by inode number: their
// names, and what they stood in.
type Places interface {
	// Complete reports whether all are known.
	Complete() bool
	Had(in, ino uint64, name string) bool
}

// search is one walk.
type search struct {
	*Watch
	Report
	kinds    map[string]int // how many findings there are of each
	deadline time.Time
	seen     map[string]bool // roots
}

// Budget is how long a search may take at the end of a run: the least, and for
// a longer run a twentieth of its time, ten times as much at most.
func (w *Watch) Budget(least time.Duration) time.Duration {
	return max(least, min(time.Since(w.began)/20, 10*least))
}

// Report looks through the directories and files that the command could write,
// for at most so long.
func (w *Watch) Report(roots []string, budget time.Duration) Report {
	s := &search{Watch: w, deadline: time.Now().Add(budget), seen: map[string]bool{}, kinds: map[string]int{}}
	s.Partial = w.Places != nil && !w.Places.Complete()
	s.newLinks()
	for _, root := range roots {
		s.seen[root] = true
	}
	for _, root := range roots {
		if !s.inGit(root) {
			s.walk(root)
		}
	}
	s.cut()
	slices.SortFunc(s.Findings, before)
	return s.Report
}

// inGit reports whether a root lies in a git directory of another one, where
// it is looked at with that.
func (s *search) inGit(root string) bool {
	for dir := root; dir != "/" && dir != "."; dir = filepath.Dir(dir) {
		for r := range s.seen {
			if filepath.Base(dir) == ".git" && r != root && strings.HasPrefix(dir, strings.TrimSuffix(r, "/")+"/") {
				return true
			}
		}
	}
	return false
}

// newLinks reports gitlinks that weren't in the index: git takes what lies
// there for a repository of its own, configuration and all.
func (s *search) newLinks() {
	before := s.before()
	now := gitlinks(filepath.Join(s.repo, ".git/index"))
	if before == nil || now == nil {
		s.Partial = true
		return
	}
	for name := range now {
		if !before[name] {
			s.found(Finding{Path: filepath.Join(s.repo, name), Change: New, What: gitlink})
		}
	}
}

// hasScripts reports whether a package.json has any. One that can't be read
// here may have some.
func hasScripts(path string) bool {
	b, err := readRegular(path, maxRead)
	return err != nil || bytes.Contains(b, []byte(`"scripts"`)) || bytes.Contains(b, []byte(`\u`))
}

var errNotRegular = errors.New("it is no regular file, or too large")

// readRegular reads a file that somebody else may have put there: no link is
// followed, and no FIFO waited for.
func readRegular(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|openFlags, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() > most) {
		err = errNotRegular
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, most))
}
