package persist

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// What changed before the command could run isn't of its doing, however short
// before; what changes from then on is.
func TestBeginning(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w := Begin(root)
	write(".envrc")
	// Since Linux 6.13 a file's time may be ahead of the last tick's.
	for now := time.Now(); !stamp().After(now); time.Sleep(time.Millisecond) { // nothing tells of a tick
	}
	w.Began()
	write(".mcp.json")
	r := w.Report([]string{root}, time.Minute)
	if len(r.Findings) != 1 || filepath.Base(r.Findings[0].Path) != ".mcp.json" || r.Findings[0].Change != New {
		t.Errorf("%+v", r)
	}
}

// A file system that keeps whole seconds says that what changes now has
// changed before.
func TestGrains(t *testing.T) {
	t.Parallel()
	at := func(s string) time.Time {
		t.Helper()
		out, err := time.Parse(time.RFC3339Nano, "2026-11-30T10:00:"+s+"Z")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	w := &Watch{began: at("05.123456789")}
	for s, want := range map[string]bool{
		"05.123456788": true, "05.123456789": false, "05.1234567": false, "05.1234566": true,
		"05.123456": false, "05.123455": true, "05.12": false, "05.11": true,
		"05": false, "04": false, "03": true, "02": true, "06": false,
	} {
		if got := w.isEarlier(at(s)); got != want {
			t.Errorf("%s: %v", s, got)
		}
	}
}
