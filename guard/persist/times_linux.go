package persist

import (
	"time"

	"golang.org/x/sys/unix"
)

const openFlags = unix.O_NOFOLLOW | unix.O_NONBLOCK

// timesOf are when a file's status last changed and when it was made, zero
// where the file system doesn't keep that (statx(2)).
func timesOf(path string) (changed, born time.Time, err error) {
	var st unix.Statx_t
	err = unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_CTIME|unix.STATX_BTIME, &st)
	if err != nil {
		return changed, born, err
	}
	changed = time.Unix(st.Ctime.Sec, int64(st.Ctime.Nsec))
	if st.Mask&unix.STATX_BTIME != 0 {
		born = time.Unix(st.Btime.Sec, int64(st.Btime.Nsec))
	}
	return changed, born, nil
}
