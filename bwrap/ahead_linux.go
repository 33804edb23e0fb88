package bwrap

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// fingerprint tells a program from what stood at its path before: a new one
// has another inode, and one that was written to has another ctime, which
// nobody can set (inode(7)).
func fingerprint(path string) (string, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return "", fmt.Errorf("cannot look at %q: %w", path, err)
	}
	return fmt.Sprintf("%s %d:%d %d %d.%d", path, st.Dev, st.Ino, st.Size, st.Ctim.Sec, st.Ctim.Nsec), nil
}
