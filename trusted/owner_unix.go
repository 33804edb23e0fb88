//go:build unix

package trusted

import (
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// writableByOthers says why a user other than root and uid could change what
// stands there, or "". A directory with the sticky bit lets nobody touch
// another's entries, and the mode of a link means nothing.
func writableByOthers(info fs.FileInfo, uid int) string {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch mode := info.Mode(); {
	case !ok:
		return "has no owner"
	case st.Uid != 0 && int(st.Uid) != uid:
		return fmt.Sprintf("belongs to user %d", st.Uid)
	case mode&fs.ModeSymlink != 0, mode.IsDir() && mode&fs.ModeSticky != 0:
		return ""
	case mode.Perm()&0o022 != 0:
		return fmt.Sprintf("can be written by others (mode %04o)", mode.Perm())
	}
	return ""
}

// Foreign reports whether something belongs to neither root nor the caller,
// who may change it whatever its mode says.
func Foreign(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || st.Uid != 0 && int(st.Uid) != os.Geteuid()
}
