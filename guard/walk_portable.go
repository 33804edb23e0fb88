//go:build !linux

package guard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// portableWalk is a walk one directory after the other: these systems have no
// getdents64.
type portableWalk struct {
	req walkRequest
	out walkResult
}

type portableDir struct {
	path  string
	depth int
	stops *stops
}

func (hostFS) walk(ctx context.Context, req walkRequest) (walkResult, error) {
	w := &portableWalk{req: req}
	var stack []portableDir
	for _, r := range req.roots {
		stack = append(stack, portableDir{path: r.path, stops: r.stops})
	}
	for len(stack) > 0 {
		if err := context.Cause(ctx); err != nil {
			return w.out, err
		}
		d := stack[len(stack)-1]
		found, err := w.directory(d)
		if err != nil {
			return w.out, err
		}
		stack = append(stack[:len(stack)-1], found...)
	}
	return w.out, nil
}

func (w *portableWalk) directory(d portableDir) ([]portableDir, error) {
	if d.depth > maxDepth {
		return nil, fmt.Errorf("cannot walk %q: %w", short(d.path), errDepth)
	}
	list, err := w.list(d.path)
	if err != nil {
		return nil, err
	}
	var found []portableDir
	var looks bare
	for _, e := range list {
		looks.see([]byte(e.Name()))
		var below *stops
		if d.stops != nil {
			below = d.stops.next[e.Name()]
		}
		if below != nil && below.here {
			continue
		}
		if e.IsDir() {
			found = append(found, portableDir{path: join(d.path, e.Name()), depth: d.depth + 1, stops: below})
		}
		w.entry(d.path, e)
	}
	if looks == isBare {
		w.out.bares = append(w.out.bares, d.path)
	}
	if w.out.entries += len(list); w.out.entries > w.req.limit {
		return nil, errEntries
	}
	return found, nil
}

// list lists a directory; one that is gone, or that only its owner may open
// up, holds nothing.
func (w *portableWalk) list(dir string) ([]fs.DirEntry, error) {
	list, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, fs.ErrPermission):
		st, err := statOf(dir)
		if err == nil && st.Uid == w.req.uid {
			w.out.blind = append(w.out.blind, dir)
		}
		return nil, err
	}
	return list, err
}

func (w *portableWalk) entry(dir string, e fs.DirEntry) {
	p := join(dir, e.Name())
	if e.Name() == ".git" {
		w.out.gits = append(w.out.gits, p)
	}
	if e.IsDir() || e.Type()&fs.ModeSymlink != 0 {
		return
	}
	info, err := e.Info()
	if err != nil {
		return // removed since it was listed
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Nlink > 1 {
		w.out.linked = append(w.out.linked, named{path: p, id: idOfStat(st), links: uint64(st.Nlink)})
	}
}
