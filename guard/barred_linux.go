package guard

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// barred asks the kernel, access(2), which knows of lists of further users and
// of file systems that are read-only. The owner of a directory could give
// himself what its mode takes from him; and one that this user can't read
// can't be watched, inotify(7).
func (*hostFS) barred(dir string) bool {
	if unix.Getuid() != unix.Geteuid() {
		return false // access(2) goes by the first, and what is made by the second
	}
	f, err := openStraight(dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return false
	}
	at := fmt.Sprintf("/proc/self/fd/%d", f.Fd())
	err = unix.Faccessat(unix.AT_FDCWD, at, unix.W_OK, 0)
	refused := errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) && int(st.Uid) != unix.Geteuid()
	return refused && unix.Faccessat(unix.AT_FDCWD, at, unix.R_OK|unix.X_OK, 0) == nil
}
