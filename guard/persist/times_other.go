//go:build !linux

package persist

import (
	"os"
	"syscall"
	"time"
)

const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// timesOf has only the time of the last write, which a program can set.
func timesOf(path string) (changed, born time.Time, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return changed, born, err
	}
	return info.ModTime(), born, nil
}
