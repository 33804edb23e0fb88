package guard

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
	"sync"
)

// maxDirectories bounds how many directories of the write grants are
// remembered: a megabyte.
const maxDirectories = 128 << 10

// Directories remembers which directories of the write grants were called
// what, and in which others, when the launch began. A directory that is moved
// leaves no other trace: what is in it keeps its times.
type Directories struct {
	seed maphash.Seed
	keys []uint64
	sort sync.Once
	// some: there were too many to remember.
	some bool
}

// Complete reports whether all are remembered. A nil one remembers none.
func (d *Directories) Complete() bool { return d != nil && !d.some }

// Had reports whether the directory in, by inode number, had one of this name
// and number.
func (d *Directories) Had(in, ino uint64, name string) bool {
	d.sort.Do(func() { slices.Sort(d.keys) })
	_, found := slices.BinarySearch(d.keys, directoryKey(d.seed, in, ino, []byte(name), nil))
	return found
}

// directoryKey can't be guessed, so that no name can be found that stands for
// another one.
func directoryKey(seed maphash.Seed, in, ino uint64, name, buf []byte) uint64 {
	buf = binary.NativeEndian.AppendUint64(buf[:0], in)
	buf = binary.NativeEndian.AppendUint64(buf, ino)
	return maphash.Bytes(seed, append(buf, name...))
}

// directories are those of a walk.
func directoriesOf(found walkResult) *Directories {
	if found.seed == (maphash.Seed{}) {
		return nil
	}
	d := &Directories{seed: found.seed, keys: found.dirs}
	if len(d.keys) > maxDirectories {
		d.keys, d.some = nil, true
	}
	return d
}
