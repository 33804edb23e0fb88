package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestPruneRecordsKeepsTheNewestAndTheUnfinished(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	record := func(i int) string { return filepath.Join(state, recordsDir, fmt.Sprintf("2026010%d", i)) }
	for i := range 6 {
		makeDir(t, record(i))
		if i == 1 {
			continue // it never ended
		}
		if err := os.WriteFile(filepath.Join(record(i), "exit"), nil, 0o400); err != nil {
			t.Fatal(err)
		}
	}
	held, err := lockDir(record(2))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := pruneRecords(state, 2); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, true, true, false, true, true} {
		if _, err := os.Lstat(record(i)); (err == nil) != want {
			t.Errorf("record %d: got %v, wanted kept %v", i, err, want)
		}
	}
}

func TestRunNamesAreInOrderAndDiffer(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 9, 8, 7, 6, 0, time.FixedZone("", 3600))
	a, b, later := runName(now), runName(now), runName(now.Add(time.Second))
	if a == b || a >= later || a[:15] != "20261109T070706" {
		t.Errorf("got %q, %q, then %q", a, b, later)
	}
}
