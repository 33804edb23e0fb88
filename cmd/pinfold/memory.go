package main

import (
	"runtime/debug"
	"time"
)

// startMemory is how much may be in use before the command runs and nothing
// is collected: a launch makes a few megabytes of garbage, and to collect it
// takes longer than to leave it.
const startMemory = 64 << 20

// settleTime is how long a command runs before anything is collected: one that
// ends sooner needn't share its processors with that, nor wait for it.
const settleTime = 100 * time.Millisecond

// collectLate puts the collector off; the result puts it back to work, soon.
func collectLate() func() {
	percent := debug.SetGCPercent(-1)
	limit := debug.SetMemoryLimit(startMemory)
	if limit == startMemory {
		return func() {} // another launch of this process puts both back
	}
	return func() {
		time.AfterFunc(settleTime, func() {
			debug.SetMemoryLimit(limit)
			debug.SetGCPercent(percent)
		})
	}
}
