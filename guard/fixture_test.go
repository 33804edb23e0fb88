package guard

import (
	"context"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
)

// memFS is a file system for fixtures: kinds by path, and links.
type memFS struct {
	kinds map[string]Kind
	links map[string]string
	// fold: names differ by more than their case.
	fold bool
	// closed: this user can make nothing in these.
	closed map[string]bool
}

func newMemFS(dirs ...string) *memFS {
	m := &memFS{kinds: map[string]Kind{"/": Dir, "/tmp": Dir}, links: map[string]string{}}
	for _, d := range dirs {
		m.add(d, Dir)
	}
	return m
}

// add makes a path, with the directories above it.
func (m *memFS) add(p string, k Kind) {
	for _, dir := range ancestors(p) {
		m.kinds[dir] = Dir
	}
	m.kinds[p] = k
}

func (m *memFS) lookup(p string) (object, error) {
	o := object{path: "/"}
	todo := strings.Split(p, "/")
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			o.path = parent(o.path)
			continue
		}
		next := m.real(join(o.path, name))
		if target, ok := m.links[next]; ok {
			if o.links = append(o.links, link{path: next, target: target}); len(o.links) > maxLinks {
				return object{}, errors.New("a loop")
			}
			if path.IsAbs(target) {
				o.path = "/"
			}
			todo = append(strings.Split(target, "/"), todo...)
			continue
		}
		if _, ok := m.kinds[next]; !ok {
			o.exists, o.path, o.end = o.path, join(next, path.Join(todo...)), endAbsent
			o.path = path.Clean(o.path)
			return o, nil
		}
		o.path = next
	}
	o.exists, o.kind = o.path, m.kinds[o.path]
	o.id = FileID{Dev: 1, Ino: uint64(len(o.path))}
	return o, nil
}

// real is the name as it stands on a file system that folds case.
func (m *memFS) real(p string) string {
	if !m.fold {
		return p
	}
	for q := range m.kinds {
		if strings.EqualFold(q, p) {
			return q
		}
	}
	for q := range m.links {
		if strings.EqualFold(q, p) {
			return q
		}
	}
	return p
}

func (m *memFS) names(dir string) ([]string, error) {
	var out []string
	for p := range m.kinds {
		if p != "/" && parent(p) == dir {
			out = append(out, path.Base(p))
		}
	}
	return out, nil
}

func (m *memFS) linksIn(dir string) (links, dirs []string, err error) {
	for p := range m.links {
		if parent(p) == dir {
			links = append(links, path.Base(p))
		}
	}
	for p, k := range m.kinds {
		if k == Dir && p != dir && parent(p) == dir {
			dirs = append(dirs, path.Base(p))
		}
	}
	slices.Sort(links)
	slices.Sort(dirs)
	return links, dirs, nil
}

func (m *memFS) read(string, int64) ([]byte, error) {
	return nil, errors.New("fixtures have no contents")
}

func (m *memFS) hold(string, FileID) (io.Closer, error) { return io.NopCloser(nil), nil }

func (m *memFS) walk(context.Context, walkRequest) (walkResult, error) { return walkResult{}, nil }

func (m *memFS) barred(dir string) bool { return m.closed[dir] }

func (m *memFS) close() {}

// fixture is a machine with that file system.
func (m *memFS) fixture() host {
	return host{
		fs: m, homeOf: func(int) string { return "" }, mounts: func() ([]mount, error) { return nil, nil },
		private: func(uint32, func(uint32) bool) bool { return false },
	}
}
