package guard

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A tree that somebody else removes and makes again while it is walked is no
// error, wherever the walk has got to: a directory that is gone holds nothing.
func TestWalkOfATreeThatGoes(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	end := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		for {
			select {
			case <-end:
				done <- nil
				return
			default:
			}
			if err := makeAndRemove(root); err != nil {
				done <- err
				return
			}
		}
	}()
	o, err := newHostFS().lookup(root)
	if err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(time.Second); time.Now().Before(until); {
		_, err := newHostFS().walk(context.Background(), walkRequest{
			roots: []walkRoot{{path: o.path, id: o.id}}, limit: defaultEntries, uid: uint32(os.Getuid()),
		})
		if err != nil {
			t.Error(err)
			break
		}
	}
	close(end)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func makeAndRemove(root string) error {
	for _, name := range []string{"a/b/c", "a/d", "e/f"} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(root, name, "file"), nil, 0o644); err != nil {
			return err
		}
	}
	for _, name := range []string{"a", "e"} {
		if err := os.RemoveAll(filepath.Join(root, name)); err != nil {
			return err
		}
	}
	return nil
}

// A directory that holds more than is read at a time is read whole.
func TestWalkOfALargeDirectory(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	const files = 3000
	for i := range files {
		if err := os.WriteFile(filepath.Join(root, fmt.Sprintf("a-name-of-some-length-%d", i)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(root, fmt.Sprintf("a-name-of-some-length-%d", files-1)), filepath.Join(root, "other")); err != nil {
		t.Fatal(err)
	}
	o, err := newHostFS().lookup(root)
	if err != nil {
		t.Fatal(err)
	}
	defer o.release()
	got, err := newHostFS().walk(t.Context(), walkRequest{
		roots: []walkRoot{{path: o.path, id: o.id}}, limit: defaultEntries, uid: uint32(os.Getuid()),
	})
	if err != nil || got.entries != files+1 || len(got.linked) != 2 {
		t.Errorf("%d entries, %d names of linked files, %v", got.entries, len(got.linked), err)
	}
}
