package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// resultSink is where --result goes. A file is written whole under another
// name and then renamed, so that a reader finds all of it or nothing.
type resultSink struct {
	spec      string
	file      *os.File
	temporary string // name to be renamed, "" where file is written as it is
	path      string // "" for what has no name
	workspace string // canonical, for a launch that was refused
}

// open opens FILE or fd:N.
func (s *resultSink) open(may reach) (err error) {
	if number, ok := descriptorNumber(s.spec); ok {
		f, err := inheritedFile(number)
		if err == nil {
			s.path, err = may.check(f)
		}
		if err == nil {
			s.file = f
		}
		return err
	}
	if s.path, err = may.place(s.spec); err != nil {
		return err
	}
	info, err := os.Lstat(s.path)
	if err == nil && !info.Mode().IsRegular() {
		return s.openSpecial(info)
	}
	s.file, err = os.CreateTemp(filepath.Dir(s.path), ".pinfold-result-*")
	if err == nil {
		s.temporary = s.file.Name()
	}
	return err
}

// openSpecial opens what isn't replaced: a FIFO or a device.
func (s *resultSink) openSpecial(info os.FileInfo) (err error) {
	if info.IsDir() || info.Mode()&os.ModeSymlink != 0 {
		return errors.New("it is a directory or a symbolic link")
	}
	// O_NONBLOCK: a FIFO without a reader is an error, not a wait.
	s.file, err = os.OpenFile(s.path, os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	return err
}

// errUnread is a result that is left unread in part.
var errUnread = errors.New("read it while pinfold runs, or name a file")

// resultChunk is what a pipe takes at once that anything has been read of,
// pipe(7).
const resultChunk = 4 << 10

// put writes the result. A pipe takes some 64 KiB: who reads it only after
// pinfold has ended would be waited for without end, so that has the bound of
// events, from the last time that something was read.
func (s *resultSink) put(text []byte) error {
	if info, err := s.file.Stat(); err == nil && info.Mode().IsRegular() {
		_, err = s.file.Write(text)
		return err
	}
	written, given := make(chan error), make(chan struct{})
	defer close(given)
	go func() {
		defer close(written)
		for chunk := range slices.Chunk(text, resultChunk) {
			_, err := s.file.Write(chunk)
			select {
			case written <- err:
			case <-given:
				return
			}
		}
	}()
	bound := time.NewTimer(eventsGrace)
	defer bound.Stop()
	for chunks := 0; ; chunks++ {
		select {
		case err, more := <-written:
			if err != nil || !more {
				return err
			}
			bound.Reset(eventsGrace)
		case <-bound.C:
			return fmt.Errorf("nobody read more than the first %d of %d bytes for %v: %w", chunks*resultChunk, len(text), eventsGrace, errUnread)
		}
	}
}

// write writes the result and closes.
func (s *resultSink) write(text []byte) error {
	if s.file == nil {
		if err := s.open(reachOfNone(s.workspace)); err != nil {
			return err
		}
	}
	err := s.put(text)
	if errors.Is(err, errUnread) {
		return err // its descriptor is still being written to
	}
	err = errors.Join(err, s.file.Close())
	if s.temporary == "" {
		return err
	}
	if err == nil {
		err = os.Rename(s.temporary, s.path)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(s.temporary))
	}
	return err
}
