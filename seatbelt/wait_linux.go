package seatbelt

import (
	"errors"

	"golang.org/x/sys/unix"
)

// waitExited waits until a child has ended and leaves it as a zombie, whose
// pid nobody can take: waitid(2) with WNOWAIT.
func waitExited(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// maxrssUnit: getrusage(2) counts kibibytes here.
const maxrssUnit = 1024
