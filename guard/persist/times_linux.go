package persist

import (
	"time"

	"golang.org/x/sys/unix"
)

const openFlags = unix.O_NOFOLLOW | unix.O_NONBLOCK

// looked is what a name stands for: when its status last changed and when it
// was made, zero where the file system doesn't keep that, and its number.
type looked struct {
	changed, born time.Time
	ino           uint64
}

// stamp is the time that a file gets which changes now: that of the kernel's
// last tick, or a later one.
func stamp() time.Time {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME_COARSE, &t) != nil {
		return time.Now().Add(-tick)
	}
	return time.Unix(t.Unix())
}

// tick is the longest of any kernel's: 100 of them in a second.
const tick = 10 * time.Millisecond

// lookAt looks, statx(2).
func lookAt(path string) (l looked, err error) {
	var st unix.Statx_t
	err = unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_CTIME|unix.STATX_BTIME|unix.STATX_INO, &st)
	if err != nil {
		return l, err
	}
	l.changed = time.Unix(st.Ctime.Sec, int64(st.Ctime.Nsec))
	l.ino = st.Ino
	if st.Mask&unix.STATX_BTIME != 0 {
		l.born = time.Unix(st.Btime.Sec, int64(st.Btime.Nsec))
	}
	return l, nil
}
