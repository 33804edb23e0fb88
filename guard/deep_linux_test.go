package guard_test

import (
	"testing"

	"golang.org/x/sys/unix"
)

// A tree that is nested too deep is refused in a line that can be read.
func TestTooDeep(t *testing.T) {
	t.Parallel()
	tr := newTree(t)
	dir, err := unix.Open(tr.path("ws"), unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 2100 {
		if err := unix.Mkdirat(dir, "deep", 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(dir, "deep", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(dir)
		dir = next
	}
	_ = unix.Close(dir)
	if r := (launch{write: []string{"{workspace}"}}).refused(tr, "too_deep"); len(r.Why) > 400 {
		t.Errorf("why is %d bytes long: %s", len(r.Why), r.Why)
	}
}
