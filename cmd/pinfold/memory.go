package main

import (
	"runtime/debug"
	"sync"
	"time"
)

// startMemory is how much may be in use before the command runs and nothing
// is collected: a launch makes a few megabytes of garbage, and to collect it
// takes longer than to leave it.
const startMemory = 64 << 20

// settleTime is how long a command runs before anything is collected: one that
// ends sooner needn't share its processors with that, nor wait for it.
const settleTime = 100 * time.Millisecond

// collector puts the garbage collector off while launches begin. Its settings
// are the process's: the first launch of several at a time keeps them, and the
// last one puts them back.
type collector struct {
	mu       sync.Mutex
	launches int // that have begun and not settled
	percent  int
	limit    int64
}

// theCollector is the only one, as the runtime's is.
var theCollector collector //nolint:gochecknoglobals // it guards what is the process's

// collectLate puts the collector off; the result puts it back to work, soon.
// To call that again is no harm.
func (c *collector) collectLate() func() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.launches++; c.launches == 1 {
		c.percent = debug.SetGCPercent(-1)
		c.limit = debug.SetMemoryLimit(-1) // reads it
		debug.SetMemoryLimit(min(c.limit, startMemory))
	}
	return sync.OnceFunc(func() { time.AfterFunc(settleTime, c.settled) })
}

func (c *collector) settled() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.launches--; c.launches == 0 {
		debug.SetMemoryLimit(c.limit)
		debug.SetGCPercent(c.percent)
	}
}
