package bwrap_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pinfold/bwrap"
	"pinfold/policy"
)

// countingTool is a bubblewrap that notes each time it is run.
func countingTool(t *testing.T, dir, version string) {
	t.Helper()
	text := "#!/bin/sh\necho run >> " + filepath.Join(dir, "runs") + "\necho bubblewrap " + version + "\n"
	name := filepath.Join(dir, "bwrap")
	if err := os.WriteFile(name+".new", []byte(text), 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

func runsOf(dir string) int {
	text, _ := os.ReadFile(filepath.Join(dir, "runs"))
	return strings.Count(string(text), "run")
}

func TestLookAheadRemembersOneProgram(t *testing.T) {
	t.Parallel()
	dir, state := t.TempDir(), t.TempDir()
	nothing := func(string) bool { return false }
	look := func(want string, runs int) {
		t.Helper()
		m, err := bwrap.LookAhead(t.Context(), dir, state).Machine(nothing)
		if err != nil || m.Bwrap.Version != want {
			t.Fatalf("got version %q, %v, wanted %q", m.Bwrap.Version, err, want)
		}
		if got := runsOf(dir); got != runs {
			t.Fatalf("it was run %d times, wanted %d", got, runs)
		}
	}
	countingTool(t, dir, "0.8.0")
	look("0.8.0", 1)
	look("0.8.0", 1)
	countingTool(t, dir, "0.9.1")
	look("0.9.1", 2)
	look("0.9.1", 2)
	// A damaged memory is none.
	if err := os.WriteFile(filepath.Join(state, "bubblewrap.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	look("0.9.1", 3)
}

// What the command may write is never run outside, remembered or not.
func TestLookAheadRunsNothingOfTheCommand(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{false, true} {
		dir, state := t.TempDir(), t.TempDir()
		countingTool(t, dir, "0.8.0")
		want := 0
		if known {
			if _, err := bwrap.LookAhead(t.Context(), dir, state).Machine(func(string) bool { return false }); err != nil {
				t.Fatal(err)
			}
			want = 1
		}
		_, err := bwrap.LookAhead(t.Context(), dir, state).Machine(func(p string) bool { return p == dir })
		var r *policy.Refusal
		if !errors.As(err, &r) || r.Code != "bwrap_untrusted" {
			t.Errorf("known %v: got %v, wanted bwrap_untrusted", known, err)
		}
		if got := runsOf(dir); got != want {
			t.Errorf("known %v: it was run %d times, wanted %d", known, got, want)
		}
	}
}
