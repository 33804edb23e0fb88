package main

import (
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"
)

// TestCollectorIsPutBack isn't parallel: the settings are the process's.
func TestCollectorIsPutBack(t *testing.T) {
	for name, limit := range map[string]int64{
		"a usual limit": 1 << 40, "the limit of a launch": startMemory, "a lower one": startMemory / 2,
	} {
		t.Run(name, func(t *testing.T) {
			defer debug.SetGCPercent(debug.SetGCPercent(70))
			defer debug.SetMemoryLimit(debug.SetMemoryLimit(limit))
			synctest.Test(t, func(t *testing.T) {
				c := &collector{}
				first := c.collectLate()
				second := c.collectLate()
				checkCollector(t, -1, min(limit, startMemory))
				first()
				first()
				time.Sleep(settleTime)
				synctest.Wait()
				checkCollector(t, -1, min(limit, startMemory)) // the second still begins
				second()
				checkCollector(t, -1, min(limit, startMemory)) // it has just begun
				time.Sleep(settleTime)
				synctest.Wait()
				checkCollector(t, 70, limit)
			})
		})
	}
}

func checkCollector(t *testing.T, percent int, limit int64) {
	t.Helper()
	gotLimit := debug.SetMemoryLimit(-1)
	gotPercent := debug.SetGCPercent(percent)
	if gotPercent != percent || gotLimit != limit {
		t.Errorf("got %d %% and %d bytes, wanted %d %% and %d", gotPercent, gotLimit, percent, limit)
	}
	debug.SetGCPercent(gotPercent)
}
