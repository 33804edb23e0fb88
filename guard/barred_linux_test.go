package guard

import (
	"os"
	"testing"
)

// What this user can give himself isn't kept from him, and nothing is from root.
func TestBarredDirectories(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	own := dir + "/own"
	if err := os.Mkdir(own, 0o500); err != nil {
		t.Fatal(err)
	}
	h := &hostFS{}
	for at, want := range map[string]bool{
		dir: false, own: false, dir + "/none": false, "/tmp": false, "/usr": os.Geteuid() != 0,
	} {
		if got := h.barred(at); got != want {
			t.Errorf("%s: %v", at, got)
		}
	}
}
