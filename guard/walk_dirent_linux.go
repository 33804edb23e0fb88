package guard

import "hash/maphash"

// Where the fields of a linux_dirent64 stand, getdents64(2).
const (
	direntReclen = 16
	direntType   = 18
	direntName   = 19
)

// nameOf is the name of an entry, without the NUL that ends it.
func nameOf(entry []byte) []byte {
	name := entry[direntName:]
	for i, c := range name {
		if c == 0 {
			return name[:i]
		}
	}
	return name
}

// remember notes what a directory is called, and in which other one.
func (k *worker) remember(in, ino uint64, name string) {
	if k.w.req.seed != (maphash.Seed{}) && len(k.out.dirs) <= maxDirectories {
		k.out.dirs = append(k.out.dirs, directoryKey(k.w.req.seed, in, ino, []byte(name), k.key[:]))
	}
}
