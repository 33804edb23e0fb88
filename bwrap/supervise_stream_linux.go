package bwrap

import (
	"fmt"

	"golang.org/x/sys/unix"

	"pinfold/policy"
)

// checkStream refuses a standard stream that would open the host's file
// system to the command: a directory, from which openat(2) goes up and down as
// far as the file modes let it, past every mount of the sandbox's.
func checkStream(number, fd int) error {
	name := [3]string{"input", "output", "error"}[number]
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("cannot look at standard %s: %w", name, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return nil
	}
	return &policy.Refusal{
		Reason: policy.Denied, Code: "stream_is_directory", Subject: "standard " + name,
		Why: fmt.Sprintf("cannot hand on standard %s: it is a directory, and a way out of the boundary", name),
		Fix: "redirect it from or to a file, a pipe or /dev/null",
	}
}
