package engine

import (
	"bufio"
	"bytes"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

func kernelRelease() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", err
	}
	return unix.ByteSliceToString(u.Release[:]), nil
}

// listening reads which unix sockets of this network namespace somebody
// listens on: the flag __SO_ACCEPTCON (1<<16) in the fourth column of
// /proc/net/unix, the path in the eighth.
func listening() ([]string, error) {
	text, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		return nil, err
	}
	var out []string
	s := bufio.NewScanner(bytes.NewReader(text))
	for s.Scan() {
		fields := strings.Fields(s.Text())
		if len(fields) < 8 || fields[3] != "00010000" {
			continue
		}
		// The path is the rest of the line, blanks included.
		if i := strings.Index(s.Text(), " /"); i >= 0 {
			out = append(out, s.Text()[i+1:])
		}
	}
	return out, s.Err()
}

// openFiles and processes are what this process may hand on: a container
// whose engine asks for more isn't started where nobody may raise the bound.
func openFiles() int64 { return hardLimit(unix.RLIMIT_NOFILE) }

func processes() int64 { return hardLimit(unix.RLIMIT_NPROC) }

func hardLimit(resource int) int64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(resource, &l); err != nil || l.Max > 1<<20 {
		return 1 << 20
	}
	return int64(l.Max)
}
