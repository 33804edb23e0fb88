package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"pinfold/guard"
)

// resultSink is where --result goes. A file is written whole under another
// name and then renamed, so that a reader finds all of it or nothing.
type resultSink struct {
	spec      string
	file      *os.File
	temporary string // name to be renamed, "" where file is written as it is
	path      string
}

// open opens FILE or fd:N. g says what the command may write; nil is for a
// launch that was refused, where there is no command.
func (s *resultSink) open(g *guard.Grant) error {
	if number, ok := descriptorNumber(s.spec); ok {
		f, err := inheritedFile(number)
		s.file = f
		return err
	}
	abs, err := filepath.Abs(s.spec)
	if err != nil {
		return err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	if err != nil {
		return err
	}
	s.path = filepath.Join(dir, filepath.Base(abs))
	if g != nil && g.Writable(s.path) {
		return errors.New("the command may write there")
	}
	info, err := os.Lstat(s.path)
	if err == nil && !info.Mode().IsRegular() {
		return s.openSpecial(info)
	}
	s.file, err = os.CreateTemp(dir, ".pinfold-result-*")
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

// descriptorNumber is N of fd:N, and of what shells make of >(command).
func descriptorNumber(spec string) (string, bool) {
	for _, prefix := range []string{"fd:", "/dev/fd/", "/proc/self/fd/"} {
		if n, ok := strings.CutPrefix(spec, prefix); ok {
			return n, true
		}
	}
	return "", false
}

// write writes the result and closes.
func (s *resultSink) write(text []byte) error {
	if s.file == nil {
		if err := s.open(nil); err != nil {
			return err
		}
	}
	_, err := s.file.Write(text)
	err = errors.Join(err, s.file.Close())
	switch {
	case s.temporary == "":
	case err == nil:
		err = os.Rename(s.temporary, s.path)
	default:
		err = errors.Join(err, os.Remove(s.temporary))
	}
	return err
}
