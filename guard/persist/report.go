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
	maxDepth    = 12
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
}

// Report is what was found.
type Report struct {
	Findings []Finding
	// Partial: the bounds ended the search.
	Partial bool
}

// slack is how much earlier than the clock says a file's time may be: the
// kernel stamps with that of its last tick, 10 ms ago at most.
const slack = 10 * time.Millisecond

// Watch remembers how things were when it began.
type Watch struct {
	began time.Time
	repo  string
	links chan map[string]bool // the gitlinks of the repository
}

// Begin begins, and reads the workspace's list of gitlinks meanwhile.
func Begin(workspace string) *Watch {
	w := &Watch{began: time.Now().Add(-slack), repo: workspace, links: make(chan map[string]bool, 1)}
	go func() { w.links <- gitlinks(filepath.Join(workspace, ".git/index")) }()
	return w
}

// Began waits until all is remembered that the command could change.
func (w *Watch) Began() { w.before() }

// before is what was remembered; it stays.
func (w *Watch) before() map[string]bool {
	links := <-w.links
	w.links <- links
	return links
}

// search is one walk.
type search struct {
	*Watch
	Report
	deadline time.Time
	seen     map[string]bool // roots
}

// Report looks through the directories that the command could write, for at
// most so long.
func (w *Watch) Report(roots []string, budget time.Duration) Report {
	s := &search{Watch: w, deadline: time.Now().Add(budget), seen: map[string]bool{}}
	s.newLinks()
	for _, root := range roots {
		s.seen[root] = true
	}
	for _, root := range roots {
		s.walk(root)
	}
	slices.SortFunc(s.Findings, func(a, b Finding) int { return strings.Compare(a.Path, b.Path) })
	return s.Report
}

func (s *search) found(f Finding) {
	if len(s.Findings) >= maxFindings {
		s.Partial = true
		return
	}
	s.Findings = append(s.Findings, f)
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
			s.found(Finding{filepath.Join(s.repo, name), New, "gitlink"})
		}
	}
}

// place is a directory to go through.
type place struct {
	dir   string
	depth int
}

// walk goes through a tree, what is near the top first: there lies most of
// what is run, and the time may not be enough for all.
func (s *search) walk(root string) {
	queue := []place{{root, 0}}
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

// late ends the search when its time is over.
func (s *search) late() bool {
	if time.Now().Before(s.deadline) {
		return false
	}
	s.Partial = true
	return true
}

// through looks at what one directory holds, and queues the directories in
// it. What can't be read the command couldn't have made so without changing a
// parent that can; it is passed over.
func (s *search) through(p place, queue []place) []place {
	f, err := os.Open(p.dir)
	if err != nil {
		return queue
	}
	defer f.Close()
	for n := 0; ; n++ {
		entries, err := f.ReadDir(batch)
		for _, e := range entries {
			path := filepath.Join(p.dir, e.Name())
			if s.entry(path, e) {
				queue = append(queue, place{path, p.depth + 1})
			}
		}
		if err != nil || (p.depth > 0 || n >= topBatches) && s.late() {
			return queue
		}
	}
}

// entry looks at one name, and reports whether it is a directory to enter.
func (s *search) entry(path string, e os.DirEntry) bool {
	switch {
	case e.Name() == ".git":
		s.repository(path, e.IsDir())
	case e.IsDir():
		return !slices.Contains(notEntered, e.Name()) && !s.seen[path]
	default:
		if what := whatRuns(path); what != "" {
			s.judge(path, what)
		}
	}
	return false
}

// judge reports a file that is new or changed.
func (s *search) judge(path, what string) {
	change := s.change(path)
	if change == "" || filepath.Base(path) == "package.json" && !hasScripts(path) {
		return
	}
	s.found(Finding{path, change, what})
}

func (s *search) change(path string) string {
	changed, born, err := timesOf(path)
	switch {
	case err != nil || changed.Before(s.began):
		return ""
	case !born.IsZero() && !born.Before(s.began.Add(slack)):
		return New
	}
	return Changed
}

// repository looks at a ".git". A new one is one finding; in one that was
// there, only what git runs is looked at. A file points to one elsewhere.
func (s *search) repository(path string, isDir bool) {
	if change := s.change(path); change == New || change != "" && !isDir {
		s.found(Finding{path, change, "nested repository"})
		return
	}
	for _, name := range []string{"config", "config.worktree", "info/attributes"} {
		if what := inGit(name); isDir {
			s.judge(filepath.Join(path, name), what)
		}
	}
	hooks, err := os.ReadDir(filepath.Join(path, "hooks"))
	if err != nil {
		return // none
	}
	for _, h := range hooks {
		if what := inGit("hooks/" + h.Name()); what != "" {
			s.judge(filepath.Join(path, "hooks", h.Name()), what)
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
