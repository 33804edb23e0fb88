package cgroup

import (
	"path"
	"slices"
)

// Stale are the cgroups of killed programs, of any limit, where this process
// would make its own. What isn't found has its turn when somebody makes a
// tree there.
func Stale(o Options) []string {
	var dirs []string
	for _, l := range []Limits{{PIDs: 1}, {CPUs: 1}, {Memory: 1 << 20}} {
		p, err := Find(l, o)
		if err != nil {
			continue // no place for this one, so nothing of it was made
		}
		for _, q := range p.parts {
			for _, name := range p.stale(q.parent) {
				dirs = append(dirs, path.Join(q.parent, name))
			}
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// Reap takes them away and answers those that are gone. One that still has
// processes is busy and stays.
func Reap(o Options) []string {
	k := o.Kernel
	if k == nil {
		k = system{}
	}
	return slices.DeleteFunc(Stale(o), func(dir string) bool { return k.Remove(dir) != nil })
}
