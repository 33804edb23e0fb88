package main

import "runtime/debug"

// startMemory is how much may be in use before the command runs and nothing
// is collected: a launch makes a few megabytes of garbage, and to collect it
// takes longer than to leave it.
const startMemory = 64 << 20

// collectLate puts the collector off; the result puts it back to work.
func collectLate() func() {
	percent := debug.SetGCPercent(-1)
	limit := debug.SetMemoryLimit(startMemory)
	return func() {
		debug.SetMemoryLimit(limit)
		debug.SetGCPercent(percent)
	}
}
