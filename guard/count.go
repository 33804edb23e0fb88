package guard

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// maxMounts bounds what a launch mounts. bubblewrap's time grows with the
// square of it: 0.4 s at 500, 10 s at 2,500.
const maxMounts = 300

// checkCount refuses more mounts than a launch can have.
func (g *gate) checkCount(entries []Entry, pins []Pin) error {
	n := len(entries) + len(pins)
	if n <= maxMounts {
		return nil
	}
	return refuse("too_many_mounts", fmt.Sprint(n), nil,
		fmt.Sprintf("cannot launch with %d mounts (at most %d): %s", n, maxMounts, causes(entries, pins)),
		"deny the directories that hold the paths instead of each path")
}

// index is what tells the entries of one list apart. It is compiled when it is
// needed, since every launch would wait for it.
var index = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\[\d+\]$`) })

// causes says which lists the mounts come from, the longest first.
func causes(entries []Entry, pins []Pin) string {
	count := map[string]int{}
	for _, e := range entries {
		source := e.Rule.Source
		if i := strings.LastIndexByte(source, ' '); i >= 0 && index().MatchString(source) {
			source = source[i+1:]
		}
		count[index().ReplaceAllString(source, "")]++
	}
	if len(pins) > 0 {
		count["directories that hold covered paths"] = len(pins)
	}
	names := slices.SortedFunc(maps.Keys(count), func(a, b string) int {
		return cmp.Or(count[b]-count[a], strings.Compare(a, b))
	})
	var out []string
	for _, name := range names {
		out = append(out, fmt.Sprintf("%d from %s", count[name], name))
	}
	return strings.Join(out, ", ")
}
