package bwrap

import (
	"errors"
	"slices"
)

// later is a cover that the supervisor mounts once bubblewrap has made the rest,
// and before the stub compares anything. bubblewrap reads the whole mount table
// again for each mount that it makes, so that covers, which are most of them,
// would cost more than all the rest of a launch. The arguments of the plan have
// them all the same: whoever runs those by hand gets the same boundary.
type later struct {
	path    string
	own     bool // what stands there, unwritable, and nothing in its place
	device  bool // the same, where bubblewrap has mounted it
	dir     bool
	mode    uint32
	content []byte
	data    string // the name of its datum, "" for a directory
}

// mayBeLater notes a cover, unless bubblewrap has to make what it lies on: with
// nothing there yet, or on a file system that it makes itself.
func (b *builder) mayBeLater(l later, exists bool) {
	if _, s := b.above(l.path); exists && (s == surfaceHostRO || s == surfaceHostRW || s == surfaceProc) {
		b.later = append(b.later, l)
	}
}

// last are the covers that nothing lies on, and so can be mounted last.
func (b *builder) last() []later {
	return slices.DeleteFunc(b.later, func(l later) bool {
		for p := range b.surfaces {
			if isBelow(p, l.path) {
				return true
			}
		}
		return false
	})
}

// handed are the files that bubblewrap is handed: all but the covers that are
// mounted later.
func (l *Launch) handed() []Datum {
	kept := make(map[string]bool, len(l.later))
	for i := range l.later {
		kept[l.later[i].data] = true
	}
	return slices.DeleteFunc(slices.Clone(l.Data), func(d Datum) bool { return kept[d.Name] })
}

// operations are the arguments that bubblewrap would mount a cover with, each
// list in one piece.
func (l *later) operations() [][]string {
	switch {
	case l.device:
		return nil // bubblewrap could, and not leave it a device
	case l.own:
		return [][]string{{"--ro-bind", l.path, l.path}}
	case l.dir:
		return [][]string{{"--perms", octal(l.mode), "--tmpfs", l.path}, {"--remount-ro", l.path}}
	}
	return [][]string{{"--perms", octal(l.mode), "--ro-bind-data", fdName(l.data), l.path}}
}

// withoutLater are the arguments less what is mounted later.
func withoutLater(args []string, list []later) ([]string, error) {
	drop := map[int]int{} // how many, from where on
	at := map[string][]int{}
	for i, a := range args {
		at[a] = append(at[a], i)
	}
	for i := range list {
		for _, op := range list[i].operations() {
			where, err := findOperation(args, at[list[i].path], op)
			if err != nil {
				return nil, err
			}
			drop[where] = len(op)
		}
	}
	out := make([]string, 0, len(args))
	for i := 0; i < len(args); i++ {
		if n := drop[i]; n > 0 {
			i += n - 1
			continue
		}
		out = append(out, args[i])
	}
	return out, nil
}

// findOperation finds one by where its path stands, which is its end.
func findOperation(args []string, ends []int, op []string) (int, error) {
	for _, end := range ends {
		if from := end + 1 - len(op); from >= 0 && slices.Equal(args[from:end+1], op) {
			return from, nil
		}
	}
	return 0, errors.New("internal error: the arguments lack a cover that is to be mounted later")
}
