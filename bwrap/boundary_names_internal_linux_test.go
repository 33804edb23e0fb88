package bwrap

import (
	"os"
	"path/filepath"
	"testing"
)

// A directory that can't be looked into is watched from above for a change of
// its mode. No other change of mode is of interest, or costs anything.
func TestNamesOfClosedDirectory(t *testing.T) {
	t.Parallel()
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0); err != nil {
		t.Fatal(err)
	}
	n, err := watchNames([]string{filepath.Join(closed, "name")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.close)
	dir := filepath.Dir(closed)
	if looksIn := os.Geteuid() == 0; n.modes[dir] == looksIn {
		t.Fatalf("changes of mode in %q are watched: %v, wanted %v", dir, n.modes[dir], !looksIn)
	}
	change := func(mode os.FileMode) bool {
		t.Helper()
		if err := os.Chmod(closed, mode); err != nil {
			t.Fatal(err)
		}
		relevant, err := n.read()
		if err != nil {
			t.Fatal(err)
		}
		return relevant
	}
	if os.Geteuid() == 0 {
		if change(0o100) {
			t.Fatal("a change of mode was reported that nobody waits for")
		}
		n.watchModes(closed)
		if err := n.arm(); err != nil {
			t.Fatal(err)
		}
	}
	if !change(0o700) {
		t.Error("the directory was opened, and nothing was reported")
	}
}
