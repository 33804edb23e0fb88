package engine

import "golang.org/x/sys/unix"

func kernelRelease() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", err
	}
	return unix.ByteSliceToString(u.Release[:]), nil
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
