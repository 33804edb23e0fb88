package bwrap

import (
	"io"
	"os"
	"testing"
	"time"
)

// TestReapTakesAll: who is killed with a child that waits for it leaves none.
// The child holds the pipe open as long as it lives.
func TestReapTakesAll(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	m, err := start(spawn{
		path: "/bin/sh", argv: []string{"sh", "-c", "sleep 1000 & echo up; kill -9 $$"},
		fds: []uintptr{w.Fd(), w.Fd(), w.Fd()},
	})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	<-m.gone
	if err := r.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r); err != nil || string(b) != "up\n" {
		t.Errorf("%q, %v: the child lives on", b, err)
	}
	if !m.status.Signaled() {
		t.Errorf("status %#x", m.status)
	}
}
