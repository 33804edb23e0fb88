package bwrap

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// waiting guards this process's RLIMIT_SIGPENDING while bubblewrap is forked
// with half of it.
var waiting sync.Mutex //nolint:gochecknoglobals // the limit is the process's, too

// fewerSignals lets what is forked until restore is called have half of the
// signals that may wait. They count for the user, and when too many wait a
// container's first process isn't told any more who sent one (wire.Setup's
// ShareSignals). A user namespace takes the limit that its maker has as the
// bound of what all beneath it may add to the user's count (Linux 5.14), so it
// holds for all sandboxes together; the stub lowers the hard limit.
func fewerSignals() (restore func(), err error) {
	waiting.Lock()
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_SIGPENDING, &l); err != nil {
		waiting.Unlock()
		return nil, fmt.Errorf("cannot tell how many signals may wait: %w", err)
	}
	half := l
	if l.Max != unix.RLIM_INFINITY {
		half.Cur = min(l.Cur, l.Max/2)
	}
	if err := unix.Setrlimit(unix.RLIMIT_SIGPENDING, &half); err != nil {
		waiting.Unlock()
		return nil, fmt.Errorf("cannot bound the signals that wait: %w", err)
	}
	return func() {
		_ = unix.Setrlimit(unix.RLIMIT_SIGPENDING, &l) // within the hard limit anybody may
		waiting.Unlock()
	}, nil
}
