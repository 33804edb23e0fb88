package main

import (
	"errors"
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

// TestPruneRecordsWhole: what a launch left in its record goes with it, without
// a link being followed; where somebody has put something into one, that stays.
func TestPruneRecordsWhole(t *testing.T) {
	t.Parallel()
	state, outside := t.TempDir(), filepath.Join(t.TempDir(), "outside")
	put := func(path string) {
		t.Helper()
		makeDir(t, filepath.Dir(path))
		if err := os.WriteFile(path, nil, 0o400); err != nil {
			t.Fatal(err)
		}
	}
	put(outside + "/file")
	record := func(name string) string { return filepath.Join(state, recordsDir, name) }
	for _, name := range []string{"1-taken", "2-tried", "3-used", "4-young"} {
		put(record(name) + "/exit")
	}
	put(record("1-taken") + "/taken/1-.vscode/closed/tasks.json")
	put(record("2-tried") + "/plan.1.json")
	put(record("3-used") + "/plan.1.json")
	put(record("3-used") + "/mine")
	err := errors.Join(os.Symlink(outside, record("1-taken")+"/taken/2-.idea"), os.Chmod(record("1-taken")+"/taken/1-.vscode/closed", 0))
	if err := errors.Join(err, pruneRecords(state, 1)); err != nil {
		t.Fatal(err)
	}
	for path, kept := range map[string]bool{
		record("1-taken"): false, record("2-tried"): false, record("4-young") + "/exit": true, outside + "/file": true,
		record("3-used") + "/plan.1.json": true, record("3-used") + "/exit": true, record("3-used") + "/mine": true,
	} {
		if _, err := os.Lstat(path); (err == nil) != kept {
			t.Errorf("%s: got %v, wanted kept %v", path, err, kept)
		}
	}
	if list, err := os.ReadDir(filepath.Join(state, recordsDir)); err != nil || len(list) != 2 {
		t.Errorf("left: %v, %v", list, err)
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
