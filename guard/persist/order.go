package persist

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
)

// found takes a finding, unless there are enough of its kind: the nearest to
// the top come first.
func (s *search) found(f Finding) {
	if s.kinds[f.What] >= maxFindings {
		s.Partial = true
		return
	}
	s.kinds[f.What]++
	s.Findings = append(s.Findings, f)
}

// cut keeps the report within its bound, and takes from the commonest kind
// first: no number of one kind hides another.
func (s *search) cut() {
	if len(s.Findings) <= maxFindings {
		return
	}
	s.Partial = true
	keep := share(s.kinds, maxFindings)
	slices.SortFunc(s.Findings, before)
	s.Findings = slices.DeleteFunc(s.Findings, func(f Finding) bool {
		keep[f.What]--
		return keep[f.What] < 0
	})
}

// share is how many of each kind are kept: the highest number that lets all
// kinds together stay within the bound.
func share(count map[string]int, bound int) map[string]int {
	most, total := 0, 0
	for next := 0; next <= bound && most < bound; most++ {
		next = 0
		for _, n := range count {
			next += min(n, most+1)
		}
		if next > bound {
			break
		}
		total = next
	}
	out := map[string]int{}
	for what, n := range count {
		out[what] = min(n, most)
	}
	for _, what := range kinds() { // what is left over
		if out[what] < count[what] && total < bound {
			out[what]++
			total++
		}
	}
	return out
}

// before sorts the workspace's top first, then by name.
func before(a, b Finding) int {
	return cmp.Or(a.level-b.level, strings.Compare(a.Path, b.Path))
}

// outside is the level of what isn't in the workspace.
const outside = 1000

// levelOf is how deep in the workspace a name begins that takes so many of a
// path's.
func (s *search) levelOf(path string, depth int) int {
	rel, err := filepath.Rel(s.repo, path)
	level := strings.Count(path, "/") + 1
	if err == nil && filepath.IsLocal(rel) {
		level = strings.Count(rel, "/") + 1
	} else {
		level += outside
	}
	return max(level-depth, 0)
}

// Telling are the findings that say the most, n at most: of each kind one,
// the most telling kinds first, and then further ones.
func (r Report) Telling(n int) []Finding {
	rank := map[string]int{}
	for i, k := range kinds() {
		rank[k] = i
	}
	all := slices.Clone(r.Findings)
	slices.SortFunc(all, func(a, b Finding) int { return cmp.Or(rank[a.What]-rank[b.What], before(a, b)) })
	var first, more []Finding
	for i, f := range all {
		if i == 0 || all[i-1].What != f.What {
			first = append(first, f)
		} else {
			more = append(more, f)
		}
	}
	all = append(first, more...)
	return all[:min(n, len(all))]
}
