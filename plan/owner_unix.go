//go:build unix

package plan

import (
	"errors"
	"io/fs"
	"syscall"
)

// nonBlock keeps a FIFO from holding up the reader of a record.
const nonBlock = syscall.O_NONBLOCK

// ownerOf is who owns a file, and how many names it has.
func ownerOf(info fs.FileInfo) (uid int, links uint64, err error) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, errors.New("internal error: no stat")
	}
	return int(st.Uid), uint64(st.Nlink), nil //nolint:unconvert // 16 bits wide on darwin
}
