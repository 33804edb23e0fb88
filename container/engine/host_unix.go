//go:build unix

package engine

import (
	"fmt"
	"os"
	"syscall"
)

// directoryID names a directory by device and inode.
func directoryID(path string) (string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	s, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("cannot tell the inode of %q", path)
	}
	return fmt.Sprintf("%x:%x", uint64(s.Dev), s.Ino), nil //nolint:unconvert // Dev is signed on some systems
}
