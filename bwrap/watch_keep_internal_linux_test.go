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

// A link on the way to a guarded name is taken away only where the command can
// have made it: one above the write grant is the host's.
func TestFindLeavesLinksAboveTheGrant(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	for _, err := range []error{
		os.MkdirAll(filepath.Join(top, "real/ws/sub"), 0o700),
		os.Symlink("real", filepath.Join(top, "link")),
		os.Symlink("sub", filepath.Join(top, "real/ws/.claude")),
		os.Mkdir(filepath.Join(top, "real/ws/sub/hooks"), 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if v, err := find(top+"/link/ws/.claude/hooks", top+"/link/ws"); v != nil || err != nil {
		t.Errorf("a link above the grant: got %+v, %v", v, err)
	}
	v, err := find(top+"/real/ws/.claude/hooks", top+"/real/ws")
	if err != nil || v == nil || v.path != top+"/real/ws/.claude" {
		t.Fatalf("control, a link in the grant: got %+v, %v", v, err)
	}
	v.close()
}
