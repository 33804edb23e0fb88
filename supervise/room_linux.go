package supervise

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// PrivateDirs are the directories whose size limits.tmp bounds.
var PrivateDirs = []string{"/tmp", "/var/tmp", "/dev/shm"} //nolint:gochecknoglobals // a table

// Room holds the private directories of a launch, to tell at its end which of
// them were full. The zero value holds none.
type Room struct{ fds []int }

// Hold takes those that a process sees, which must be one of the launch's own
// that waits. One that can't be reached (a container's, for who may not look
// into it) is left out.
func (r *Room) Hold(pid int) {
	root, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(root)
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS}
	for _, dir := range PrivateDirs {
		if fd, err := unix.Openat2(root, dir, &how); err == nil {
			r.fds = append(r.fds, fd)
		}
	}
}

// Full is how many have no room left. It lets go of them, so that what is in
// them can go.
func (r *Room) Full() (n int64) {
	for _, fd := range r.fds {
		var st unix.Statfs_t
		if unix.Fstatfs(fd, &st) == nil && st.Type == unix.TMPFS_MAGIC && st.Blocks > 0 && st.Bavail == 0 {
			n++
		}
		unix.Close(fd)
	}
	r.fds = nil
	return n
}
