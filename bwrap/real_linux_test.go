package bwrap_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/bwrap"
	"pinfold/guard"
	"pinfold/plan"
	"pinfold/stub/seccomp"
)

// realMachine is this machine, with the bubblewrap that BWRAP names or that
// is on the PATH. Without SANDBOX_TESTS=1 a missing one skips the test.
func realMachine(t *testing.T) bwrap.Machine {
	t.Helper()
	tool, err := realTool(t.Context())
	if err != nil && os.Getenv("SANDBOX_TESTS") != "1" {
		t.Skipf("no bubblewrap: %v", err)
	}
	must(t, err)
	m, err := bwrap.Probe(t.Context(), tool)
	must(t, err)
	return m
}

func realTool(ctx context.Context) (plan.Tool, error) {
	path := os.Getenv("BWRAP")
	if path == "" {
		return bwrap.Locate(ctx, os.Getenv("PATH"), nil)
	}
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	return plan.Tool{Path: path, Version: strings.TrimPrefix(strings.TrimSpace(string(out)), "bubblewrap ")}, err
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// lab is a temporary tree whose paths are canonical, outside of /tmp, which
// every sandbox has for itself.
func lab(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(labRoot(), "pinfold-lab")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	dir, err = filepath.EvalSymlinks(dir)
	must(t, err)
	return dir
}

// labRoot is a directory where both root and an ordinary user can work.
func labRoot() string {
	if dir := os.Getenv("LAB_ROOT"); dir != "" {
		return dir
	}
	if home, err := os.UserHomeDir(); err == nil {
		if info, err := os.Stat(home); err == nil && info.IsDir() && unix.Access(home, unix.W_OK) == nil {
			return home
		}
	}
	return "/dev/shm"
}

// entry looks at a path as the guard does.
func entry(t *testing.T, path string, access guard.Access) guard.Entry {
	t.Helper()
	e := guard.Entry{Path: path, Access: access, Rule: guard.Rule{Class: guard.ClassPolicy, Text: path, Source: "test"}}
	info, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return e
	}
	must(t, err)
	e.ID = idOf(info)
	switch {
	case info.IsDir():
		e.Kind = guard.Dir
	case info.Mode().IsRegular():
		e.Kind = guard.File
	default:
		e.Kind = guard.Other
	}
	return e
}

func idOf(info os.FileInfo) guard.FileID {
	st := info.Sys().(*syscall.Stat_t)
	return guard.FileID{Dev: st.Dev, Ino: st.Ino}
}

// result is what a script in the sandbox said.
type result struct {
	out  string
	code int
}

// inside runs a script in the sandbox, without the stub.
func inside(t *testing.T, in bwrap.Input, script string) result {
	t.Helper()
	m := realMachine(t)
	filter, err := seccomp.Program(m.Arch, seccomp.Base)
	must(t, err)
	l, err := bwrap.TranslateInput(in, m, bwrap.Options{Parts: &bwrap.Parts{Stub: []byte("#!/bin/sh\n"), Filter: filter}})
	must(t, err)
	return runArgs(t, l, "/bin/sh", "-c", script)
}

// runArgs hands bubblewrap its arguments and descriptors as a start does.
func runArgs(t *testing.T, l *bwrap.Launch, command ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	args := slices.Clone(l.Args)
	var files []*os.File
	give := func(content []byte) string {
		files = append(files, fileOf(t, content))
		return strconv.Itoa(2 + len(files))
	}
	for _, d := range l.Data {
		i := slices.Index(args, "{fd:"+d.Name+"}")
		if i < 0 {
			t.Fatalf("no argument takes descriptor %q", d.Name)
		}
		args[i] = give(d.Content)
	}
	for _, a := range args {
		if strings.HasPrefix(a, "{fd:") {
			t.Fatalf("no descriptor for %s", a)
		}
	}
	fd := give([]byte(strings.Join(args, "\x00") + "\x00"))
	cmd := exec.CommandContext(ctx, l.Plan.Tool.Path, append([]string{"--args", fd, "--"}, command...)...)
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
	cmd.ExtraFiles = files
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{out.String(), cmd.ProcessState.ExitCode()}
}

// fileOf is a descriptor that reads as content.
func fileOf(t *testing.T, content []byte) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("pinfold-test", unix.MFD_CLOEXEC)
	must(t, err)
	f := os.NewFile(uintptr(fd), "memfd")
	t.Cleanup(func() { f.Close() })
	_, err = f.Write(content)
	must(t, err)
	_, err = f.Seek(0, 0)
	must(t, err)
	return f
}

// say runs a script whose lines each print one word, and compares them all.
func say(t *testing.T, in bwrap.Input, script string, want ...string) {
	t.Helper()
	r := inside(t, in, script)
	if got := strings.Fields(r.out); !slices.Equal(got, want) || r.code != 0 {
		t.Errorf("exit %d, got\n%s\nwanted\n%s", r.code, r.out, strings.Join(want, "\n"))
	}
}

// try is a script that reports whether a command works.
func try(command string) string {
	return "if (" + command + ") >/dev/null 2>&1; then echo yes; else echo no; fi\n"
}

func mkdir(t *testing.T, path string) { t.Helper(); must(t, os.MkdirAll(path, 0o755)) }

func file(t *testing.T, path, content string) {
	t.Helper()
	mkdir(t, filepath.Dir(path))
	must(t, os.WriteFile(path, []byte(content), 0o644))
}

func TestRealHostBase(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	file(t, dir+"/w/a", "x")
	file(t, dir+"/secret", "s")
	file(t, dir+"/keys/id", "s")
	file(t, dir+"/home/cred.json", "s")
	in := bwrap.Input{Entries: []guard.Entry{
		entry(t, dir+"/home/cred.json", guard.Empty),
		entry(t, dir+"/keys", guard.Deny),
		entry(t, dir+"/secret", guard.Deny),
		entry(t, dir+"/w", guard.ReadWrite),
	}}
	in.Entries[0].Content = []byte("{}\n")
	say(t, in, "cd "+dir+"\n"+
		try("echo y > w/a")+try("test $(cat w/a) = y")+ // the grant
		try("cat secret")+try("echo y > secret")+try("chmod 600 secret")+try("rm secret")+
		try("ls keys")+try("cat keys/id")+try("touch keys/new")+try("chmod 700 keys")+
		try("test \"$(cat home/cred.json)\" = '{}'")+try("echo y > home/cred.json")+
		try("touch new")+try("touch /etc/new")+try("touch /new"),
		"yes", "yes",
		"no", "no", "no", "no",
		"no", "no", "no", "no",
		"yes", "no",
		"no", "no", "no")
	if b, err := os.ReadFile(dir + "/secret"); err != nil || string(b) != "s" {
		t.Errorf("the secret is %q, %v, wanted it untouched", b, err)
	}
}
