package main

import (
	"os"
	"path/filepath"
	"testing"

	"pinfold/plan"
)

// TestReachOfMounts: the innermost mount says whether a recorded launch may
// write, by the path on the host.
func TestReachOfMounts(t *testing.T) {
	t.Parallel()
	may := reachOfMounts([]plan.Mount{
		{Path: "/", Access: "read-only"},
		{Path: "/ws", Access: "read-write"},
		{Path: "/ws/ro", Access: "read-only"},
		{Path: "/kb", Source: "/srv/docs", Access: "read-write"},
	})
	for path, want := range map[string]bool{
		"/e": false, "/ws": true, "/ws/e": true, "/ws2/e": false, "/ws/ro/e": false, "/ws/rough": true, "/srv/docs/e": true, "/kb/e": false,
	} {
		if got := may.writable(path); got != want {
			t.Errorf("writable(%q) = %v, want %v", path, got, want)
		}
	}
}

// TestCheckOfARefusedLaunch: links of the workspace aren't followed, others
// are.
func TestCheckOfARefusedLaunch(t *testing.T) {
	t.Parallel()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"ws", "out"} {
		if err := os.Mkdir(filepath.Join(top, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{"ws/lnk", "lnk"} {
		if err := os.Symlink(filepath.Join(top, "out"), filepath.Join(top, link)); err != nil {
			t.Fatal(err)
		}
	}
	may := reachOfNone(filepath.Join(top, "ws"))
	if path, err := may.place(filepath.Join(top, "ws/lnk/r")); err == nil {
		t.Errorf("a link of the workspace led to %q", path)
	}
	if path, err := may.place(filepath.Join(top, "lnk/r")); err != nil || path != filepath.Join(top, "out/r") {
		t.Errorf("place = %q, %v", path, err)
	}
}
