package guard

import (
	"errors"
	"io/fs"
	"slices"
)

// pinner collects pins.
type pinner struct {
	ids  func(dir string) (FileID, error)
	seen map[string]bool
	out  []Pin
}

// pin adds the directories between a covered path and the nearest write grant
// above it. Above a grant that lies in something less, nothing can be renamed
// from inside.
func (p *pinner) pin(entries []Entry, covered string) error {
	above := nearest(entries, parent(covered))
	if covered == "/" || above == nil || above.Access != ReadWrite {
		return nil
	}
	for dir := parent(covered); dir != above.Path; dir = parent(dir) {
		if p.seen[dir] {
			return nil
		}
		id, err := p.ids(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a cover makes it; a watch has nothing to hold yet
		}
		if err != nil {
			return err
		}
		p.seen[dir] = true
		p.out = append(p.out, Pin{Root: above.Path, Path: dir, ID: id})
	}
	return nil
}

func (p *pinner) sorted() []Pin {
	slices.SortFunc(p.out, func(a, b Pin) int { return comparePaths(a.Path, b.Path) })
	return p.out
}

// nearest is the entry at a path or closest above it.
func nearest(entries []Entry, p string) *Entry {
	for {
		i, ok := slices.BinarySearchFunc(entries, p, func(e Entry, p string) int { return comparePaths(e.Path, p) })
		if ok {
			return &entries[i]
		}
		if p == "/" {
			return nil
		}
		p = parent(p)
	}
}
