//go:build !linux

package persist

import (
	"os"
	"syscall"
	"time"
)

const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

// looked is what a name stands for: when it was last written, which a program
// can set.
type looked struct {
	changed, born time.Time
	ino           uint64
}

// slack is how much earlier than the clock says a file's time may be.
const slack = 10 * time.Millisecond

// stamp is the time that a file gets which changes now, or an earlier one.
func stamp() time.Time { return time.Now().Add(-slack) }

func lookAt(path string) (l looked, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return l, err
	}
	l.changed = info.ModTime()
	return l, nil
}
