package main

import (
	"os"
	"strconv"
)

// descriptorPath is the name that an open file has in this process's mount
// namespace; for what has none it isn't absolute, proc_pid_fd(5).
func descriptorPath(f *os.File) (string, error) {
	return os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.Fd())))
}
