package engine

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
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

// Listening reads which unix sockets of this network namespace somebody
// listens on: the flag __SO_ACCEPTCON (1<<16) in the fourth column of
// /proc/net/unix, the path in the eighth.
func Listening() ([]string, error) {
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
		// The path is the rest of the line, blanks included. One that was bound
		// by a relative path can't be placed.
		i := strings.Index(s.Text(), " /")
		if i < 0 {
			continue
		}
		if path, ok := socketAt(s.Text()[i+1:]); ok {
			out = append(out, path)
		}
	}
	return out, s.Err()
}

// socketAt is where a socket stands by its canonical path, if it does still: a
// name that was removed is nobody's to connect to.
func socketAt(path string) (string, bool) {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", false
	}
	path = filepath.Join(dir, filepath.Base(path))
	st, err := os.Lstat(path)
	return path, err == nil && st.Mode()&os.ModeSocket != 0
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
