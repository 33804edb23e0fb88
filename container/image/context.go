package image

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"

	"pinfold/policy"
)

// The most that a build is sent.
const (
	maxContext = 4 << 30 // bytes
	maxEntries = 1000000
)

// buildFile is where the Dockerfile lies in what is sent, whatever its name:
// .dockerignore can't leave it out.
const buildFile = ".pinfold-Dockerfile"

// writeContext writes all that a build is sent as a tar stream: the same files
// give the same bytes, whoever owns them and whenever they were written.
func (s Source) writeContext(ctx context.Context, w io.Writer) error {
	t := tar.NewWriter(w)
	if err := addFile(t, buildFile, 0o644, s.Dockerfile); err != nil {
		return err
	}
	if s.Context != "" {
		if err := s.writeFiles(ctx, t); err != nil {
			return err
		}
	}
	return t.Close()
}

func addFile(t *tar.Writer, name string, mode int64, content []byte) error {
	if err := t.WriteHeader(header(name, tar.TypeReg, mode, int64(len(content)))); err != nil {
		return err
	}
	_, err := io.Copy(t, bytes.NewReader(content))
	return err
}

func header(name string, kind byte, mode, size int64) *tar.Header {
	return &tar.Header{Name: name, Typeflag: kind, Mode: mode, Size: size, ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
}

// writer adds the files of a context.
type writer struct {
	s       Source
	root    *os.Root
	tar     *tar.Writer
	ignored *patternmatcher.PatternMatcher
	entries int
	size    int64
}

func (s Source) writeFiles(ctx context.Context, t *tar.Writer) (err error) {
	root, err := os.OpenRoot(s.Context)
	if err != nil {
		return fmt.Errorf("cannot open the build's context: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	w := &writer{s: s, root: root, tar: t}
	if w.ignored, err = ignoreFile(root, s.name); err != nil {
		return err
	}
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return w.visit(name, d)
	})
}

// ignoreFile reads what is left out: Dockerfile's own list, or the general.
func ignoreFile(root *os.Root, dockerfile string) (*patternmatcher.PatternMatcher, error) {
	for _, name := range []string{dockerfile + ".dockerignore", ".dockerignore"} {
		text, err := root.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		patterns, err := ignorefile.ReadAll(bytes.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("cannot read %q: %w", name, err)
		}
		return patternmatcher.New(patterns)
	}
	return patternmatcher.New(nil)
}

// LeavesOut reports whether a build of a Dockerfile is sent nothing of what
// stands, or will, at a path in its context.
func LeavesOut(dockerfile, path string) (out bool, err error) {
	root, err := os.OpenRoot(filepath.Dir(dockerfile))
	if err != nil {
		return false, fmt.Errorf("cannot open the build's context: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	ignored, err := ignoreFile(root, filepath.Base(dockerfile))
	if err != nil || ignored.Exclusions() {
		return false, err // an exception may bring something of it back
	}
	return ignored.MatchesOrParentMatches(path)
}

// visit adds one entry. A directory that is left out is still looked through
// where an exception may bring something in it back.
func (w *writer) visit(name string, d fs.DirEntry) error {
	if name == "." {
		return nil
	}
	skip, err := w.ignored.MatchesOrParentMatches(name)
	switch {
	case err != nil:
		return fmt.Errorf("cannot match %q: %w", name, err)
	case skip && d.IsDir() && !w.ignored.Exclusions():
		return fs.SkipDir
	case skip:
		return nil
	case name == buildFile:
		return fmt.Errorf("cannot build: the context holds a file called %q", buildFile)
	}
	if err := w.s.permits(name); err != nil {
		return err
	}
	if w.entries++; w.entries > maxEntries {
		return fmt.Errorf("cannot build: the context %q holds more than %d entries", w.s.Context, maxEntries)
	}
	return w.add(name, d)
}

// permits refuses what no build may see.
func (s Source) permits(name string) error {
	full := path.Join(s.Context, name)
	for _, f := range s.forbidden {
		if full == f || strings.HasPrefix(full, f+"/") {
			return &policy.Refusal{
				Reason: policy.Denied, Code: "context_forbidden", Subject: full, Rule: "container.build.dockerfile",
				Why: fmt.Sprintf("cannot send %q to a build: it lies in %q, which is denied", full, f),
				Fix: "move the Dockerfile to a directory of its own, or name it in .dockerignore",
			}
		}
	}
	return nil
}

func (w *writer) add(name string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	mode := int64(info.Mode().Perm())
	switch {
	case info.IsDir():
		return w.tar.WriteHeader(header(name+"/", tar.TypeDir, mode, 0))
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := w.root.Readlink(name)
		if err != nil {
			return err
		}
		h := header(name, tar.TypeSymlink, 0o777, 0)
		h.Linkname = target
		return w.tar.WriteHeader(h)
	case info.Mode().IsRegular():
		return w.addRegular(name, mode, info.Size())
	case info.Mode()&fs.ModeSocket != 0:
		return nil // nothing that a build could use
	}
	return fmt.Errorf("cannot send %q to a build: it is no file, directory or link", path.Join(w.s.Context, name))
}

// addRegular adds a file, opened without following a link to where it is no
// longer: its size is the header's, so a file that changes meanwhile fails.
func (w *writer) addRegular(name string, mode, size int64) (err error) {
	if w.size += size; w.size > maxContext {
		return fmt.Errorf("cannot build: the context %q holds more than %d bytes", w.s.Context, int64(maxContext))
	}
	f, err := w.root.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := w.tar.WriteHeader(header(name, tar.TypeReg, mode, size)); err != nil {
		return err
	}
	if _, err := io.CopyN(w.tar, f, size); err != nil {
		return fmt.Errorf("cannot read %q for a build: %w", name, err)
	}
	return nil
}

// sum is a digest as part of a name.
func sum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// Digest names what a build is sent.
func (s Source) Digest(ctx context.Context) (string, error) {
	h := sha256.New()
	if err := s.writeContext(ctx, h); err != nil {
		return "", err
	}
	return sum(h), nil
}
