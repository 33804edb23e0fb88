package bwrap

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// What was a file at the last look may be anything when it is opened. A FIFO
// with a writer would hold its reader up for ever, and a link lead out.
func TestOpenRegularOpensFilesAlone(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	for _, err := range []error{
		os.WriteFile(filepath.Join(top, "file"), []byte("x"), 0o600),
		unix.Mkfifo(filepath.Join(top, "fifo"), 0o600),
		os.Symlink("file", filepath.Join(top, "link")),
		os.Mkdir(filepath.Join(top, "dir"), 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	writer, err := os.OpenFile(filepath.Join(top, "fifo"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	dir, err := openDir(top)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(dir)
	f, err := openRegular(dir, "file")
	if err != nil {
		t.Fatalf("control: %v", err)
	}
	f.Close()
	for _, name := range []string{"fifo", "link", "dir"} {
		if f, err := openRegular(dir, name); !errors.Is(err, errNoFile) {
			t.Errorf("%s: got %v, %v", name, f, err)
		}
	}
	// The copy of a tree that holds one goes on, and ends.
	r := newRoom()
	if _, err := r.copy(dir, "fifo", filepath.Join(top, "kept"), "fifo"); err != nil {
		t.Errorf("a FIFO: %v", err)
	}
}
