package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

// programs is a directory of commands, good and bad.
func programs(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, f := range map[string]struct {
		text string
		mode os.FileMode
	}{
		"plain":      {"echo plain \"$@\"\n", 0o755},
		"shebang":    {"#!/bin/sh\necho shebang \"$@\"\n", 0o755},
		"locked":     {"#!/bin/sh\n", 0o644},
		"lost":       {"#!/nonexistent/sh\n", 0o755},
		"binary":     {"\x7fELF\x02\x01\x01\x00foreign\n", 0o755},
		"later/tool": {"#!/bin/sh\necho later\n", 0o755},
		"tool":       {"#!/bin/sh\necho locked\n", 0o644},
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(f.text), f.mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func inPrograms(t *testing.T, argv ...string) *sandbox {
	t.Helper()
	dir := programs(t)
	s := command(argv...)
	s.bwrap = []string{"--ro-bind", dir, dir}
	s.setup.Dir = dir
	s.setup.Env = []string{"PATH=/nonexistent:" + dir + ":" + dir + "/later:/usr/bin:/bin"}
	return s
}

func TestCommandIsFound(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		argv []string
		env  []string // nil for the usual one
		want string
	}{
		"by PATH":                  {[]string{"shebang", "a b"}, nil, "shebang a b\n"},
		"by a relative path":       {[]string{"./shebang"}, nil, "shebang\n"},
		"by the working directory": {[]string{"shebang"}, []string{"PATH=/nonexistent:"}, "shebang\n"},
		"past one without x":       {[]string{"tool"}, nil, "later\n"},
		"a script that names none": {[]string{"plain", "-x", ""}, nil, "plain -x \n"},
		"without a PATH":           {[]string{"echo", "x"}, []string{"HOME=/"}, "x\n"},
		"with an empty later PATH": {[]string{"echo", "x"}, []string{"PATH=/bin", "PATH="}, "x\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := inPrograms(t, tc.argv...)
			if tc.env != nil {
				s.setup.Env = tc.env
			}
			if r := s.ran(t); r.stdout != tc.want || r.code != 0 {
				t.Errorf("status %d, stdout %q, stderr %q", r.code, r.stdout, r.stderr)
			}
		})
	}
}

// ENOENT is the supervisor's 127, anything else its 126.
func TestCommandIsRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		argv []string
		want unix.Errno
	}{
		"no such name":        {[]string{"nonesuch"}, unix.ENOENT},
		"no such path":        {[]string{"./nonesuch"}, unix.ENOENT},
		"a file as directory": {[]string{"./plain/x"}, unix.ENOENT},
		"no argument":         {nil, unix.ENOENT},
		"an empty name":       {[]string{""}, unix.ENOENT},
		"not executable":      {[]string{"./locked"}, unix.EACCES},
		"only one without x":  {[]string{"locked"}, unix.EACCES},
		"a directory":         {[]string{"./later"}, unix.EACCES},
		"the root":            {[]string{"/"}, unix.EACCES},
		"no interpreter":      {[]string{"lost"}, unix.ENOEXEC},
		"another machine's":   {[]string{"binary"}, unix.ENOEXEC},
		"a NUL":               {[]string{"echo", "a\x00b"}, unix.EINVAL},
		"too long":            {[]string{"echo", strings.Repeat("x", 1<<18)}, unix.E2BIG},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if f := inPrograms(t, tc.argv...).refused(t, wire.StepExec); f.Errno != int(tc.want) {
				t.Errorf("got %+v, wanted %v", f, tc.want)
			}
		})
	}
}
