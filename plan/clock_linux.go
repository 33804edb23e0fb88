package plan

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// ticksPerSecond is USER_HZ, the unit of times in /proc; 100 on every
// architecture that pinfold has filters for.
const ticksPerSecond = 100

// bootTicks is the clock that start times of processes are on, in their
// unit: CLOCK_BOOTTIME, since Linux 2.6.39, proc_pid_stat(5).
func bootTicks() (uint64, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0, fmt.Errorf("cannot read the clock: %w", err)
	}
	return uint64(t.Nano()) * ticksPerSecond / 1e9, nil
}
