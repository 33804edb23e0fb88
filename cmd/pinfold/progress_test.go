package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
)

// The line is there while it lasts, and gone afterwards.
func TestProgress(t *testing.T) {
	t.Parallel()
	shown := make(chan string, 100)
	done := showProgress(writerFunc(func(b []byte) { shown <- string(b) }), "walking", 5*time.Millisecond)
	if got := <-shown; got != "\rwalking (0 s)" {
		t.Errorf("got %q", got)
	}
	done()
	close(shown)
	last := ""
	for s := range shown {
		last = s
	}
	if last != "\r"+strings.Repeat(" ", len("walking (0 s)"))+"\r" {
		t.Errorf("at the end: %q", last)
	}
}

// Work that is done at once says nothing at all.
func TestNoProgress(t *testing.T) {
	t.Parallel()
	showProgress(writerFunc(func(b []byte) { t.Errorf("wrote %q", b) }), "walking", time.Hour)()
}

// Nobody looks at a file, or at a terminal that isn't this process's.
func TestNobodyWatches(t *testing.T) {
	t.Parallel()
	file, err := os.CreateTemp(t.TempDir(), "err")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	master, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	defer slave.Close()
	for _, f := range []*os.File{file, slave} {
		if isWatched(f) {
			t.Errorf("%s is watched", f.Name())
		}
	}
}

type writerFunc func([]byte)

func (f writerFunc) Write(b []byte) (int, error) {
	f(b)
	return len(b), nil
}
