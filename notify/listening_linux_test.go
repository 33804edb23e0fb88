package notify_test

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"pinfold/notify"
)

// TestListeningTellsTheInode: device and inode as stat(2) tells them, on file
// systems with a disk and without.
func TestListeningTellsTheInode(t *testing.T) {
	t.Parallel()
	for _, top := range []string{t.TempDir(), "/dev/shm"} {
		dir, err := os.MkdirTemp(top, "listening")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		path := filepath.Join(dir, "s")
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			t.Fatal(err)
		}
		list, err := notify.Listening()
		if err != nil {
			t.Fatal(err)
		}
		if want := (notify.Bound{Name: path, Dev: st.Dev, Ino: uint32(st.Ino)}); !slices.Contains(list, want) {
			t.Errorf("%+v isn't among %+v", want, list)
		}
	}
}
