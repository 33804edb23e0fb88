package guard

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// readLink reads an O_PATH descriptor of a link, readlinkat(2).
func readLink(fd int) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", buf)
	if err != nil {
		return "", fmt.Errorf("cannot read the link: %w", err)
	}
	if n == 0 || n == len(buf) {
		return "", errors.New("cannot read the link: empty or too long")
	}
	return string(buf[:n]), nil
}

// procRootIno is the inode number of the root of every procfs; the links in
// it (self, mounts) are ordinary ones.
const procRootIno = 1

// isMagic reports whether a link is one of procfs that the kernel follows
// without reading it: its text may name something else in this namespace.
func isMagic(dir, fd int) bool {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return true
	}
	if fs.Type != unix.PROC_SUPER_MAGIC {
		return false
	}
	var st unix.Stat_t
	return unix.Fstat(dir, &st) != nil || st.Ino != procRootIno
}

// hasACL reports whether a directory has an access list, which may name
// users whom its mode doesn't show. An O_PATH descriptor has no attributes
// of its own, open(2), hence the detour.
func hasACL(fd int) bool {
	n, err := unix.Getxattr(fmt.Sprintf("/proc/self/fd/%d", fd), "system.posix_acl_access", nil)
	if err == nil {
		return n > 0
	}
	return !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.ENOTSUP)
}
