package guard

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// tristate is what is known so far.
type tristate uint8

const (
	unknown tristate = iota
	no
	yes
)

// learnFolding finds out whether a directory folds case, by looking the name
// that was found up once more in the other case. That asks the file system
// itself: the flag (FS_CASEFOLD_FL) and the types that fold (vfat, exfat,
// cifs, 9p, and what a FUSE server likes) are too many to list.
func (dir *place) learnFolding(name string, st *unix.Stat_t) {
	other := otherCase(name)
	if dir.folds != unknown || other == name {
		return
	}
	dir.folds = no
	if isSame(dir, other, st) {
		dir.folds = yes
	}
}

func isSame(dir *place, name string, st *unix.Stat_t) bool {
	var other unix.Stat_t
	return unix.Fstatat(dir.fd, name, &other, unix.AT_SYMLINK_NOFOLLOW) == nil && idOf(&other) == idOf(st)
}

// spelled is the name under which an object really stands in a directory that
// folds case.
func spelled(dir *place, name string, st *unix.Stat_t) (string, error) {
	fd, err := openat2(dir.fd, ".", &unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC})
	if err != nil {
		return "", fmt.Errorf("cannot open %q: %w", dir.path, err)
	}
	f := os.NewFile(uintptr(fd), dir.path)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return "", fmt.Errorf("cannot list %q: %w", dir.path, err)
	}
	return onDisk(names, name, func(n string) bool { return isSame(dir, n, st) }), nil
}
