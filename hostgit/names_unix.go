//go:build unix

package hostgit

import (
	"io/fs"
	"syscall"
)

// hasNames reports whether a file has another name, by which something else
// may write it.
func hasNames(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || st.Nlink > 1
}
