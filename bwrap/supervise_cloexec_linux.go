package bwrap

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// closeEachOnExec does what close_range(2) can't before Linux 5.11.
func closeEachOnExec() error {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return fmt.Errorf("cannot list descriptors: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("cannot list descriptors: %w", err)
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd < 3 {
			continue
		}
		unix.CloseOnExec(fd) // one that is gone by now needs no mark
	}
	return nil
}
