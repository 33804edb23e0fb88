package notify

import (
	"bufio"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// owner is who listens on a unix socket that isn't listed.
type owner int

const (
	ownerUnknown owner = iota // or the host
	ownerInside               // a process of this sandbox
	ownerNobody               // nobody that can be seen: a socket left behind
)

// owner finds out who listens. The socket is held open, so that its inode
// can't become another one's while the kernel is asked.
func (e *Engine) owner(c *caller, fd int, st *unix.Stat_t) owner {
	if e.diag == nil {
		return ownerUnknown
	}
	places := []inode{{st.Dev, uint32(st.Ino)}}
	listens := func(i inode) bool {
		return i.ino == places[0].ino && (i.dev == places[0].dev || i.dev == e.deviceOf(c, fd))
	}
	inside, err := e.diag.find(diagListening, listens)
	if err != nil {
		return ownerUnknown
	}
	// The host's answer decides about what looks like ours too: inodes are
	// told by half, and some file systems number theirs more than once.
	host, err := e.host()
	if err != nil {
		return ownerUnknown
	}
	outside, err := host.find(diagListening, listens)
	switch {
	case err != nil || outside:
		return ownerUnknown
	case inside && isWritable(fd):
		return ownerInside
	case inside:
		return ownerUnknown
	}
	return ownerNobody
}

// host is the way to ask about the host's sockets, made when first needed.
func (e *Engine) host() (*diag, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.hostDiag == nil {
		d, err := hostDiag()
		if err != nil {
			return nil, err
		}
		e.hostDiag = d
	}
	return e.hostDiag, nil
}

// isWritable says whether a socket is seen through a mount that one can be
// made on: those of the command's own making are, the host's mostly are not.
func isWritable(fd int) bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(fd, &fs) == nil && fs.Flags&unix.ST_RDONLY == 0
}

// deviceOf is the device of the file system that holds an open file, which
// isn't what stat(2) says where one file system has several (btrfs, overlay).
// Zero where it can't be told.
func (e *Engine) deviceOf(c *caller, fd int) uint64 {
	var stx unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &stx)
	if err != nil || stx.Mask&unix.STATX_MNT_ID == 0 { // before Linux 5.8
		return 0
	}
	f, err := os.Open(procPath(c.tid, "mountinfo"))
	if err != nil {
		return 0
	}
	defer f.Close()
	id := strconv.FormatUint(stx.Mnt_id, 10)
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// 36 35 98:0 /root /mount ..., proc_pid_mountinfo(5)
		fields := strings.Fields(lines.Text())
		if len(fields) > 2 && fields[0] == id {
			return device(fields[2])
		}
	}
	return 0
}

func device(text string) uint64 {
	major, minor, _ := strings.Cut(text, ":")
	x, err := strconv.ParseUint(major, 10, 32)
	if err != nil {
		return 0
	}
	y, err := strconv.ParseUint(minor, 10, 32)
	if err != nil {
		return 0
	}
	return unix.Mkdev(uint32(x), uint32(y))
}
