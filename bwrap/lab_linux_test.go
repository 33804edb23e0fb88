package bwrap_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/bwrap"
	"pinfold/guard"
	"pinfold/stub"
	"pinfold/stub/seccomp"
	"pinfold/stub/wire"
)

// realMachine is this machine, with the bubblewrap that is on the PATH. A
// missing one skips the test, unless PINFOLD_INTEGRATION=1.
func realMachine(t testing.TB) bwrap.Machine {
	t.Helper()
	tool, err := bwrap.Locate(t.Context(), os.Getenv("PATH"), nil)
	if err != nil && os.Getenv("PINFOLD_INTEGRATION") != "1" {
		t.Skipf("no bubblewrap: %v", err)
	}
	must(t, err)
	m, err := bwrap.Probe(t.Context(), tool)
	must(t, err)
	return m
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

// realLaunch translates for this machine, with the programs of this build.
func realLaunch(t testing.TB, in bwrap.Input) *bwrap.Launch {
	t.Helper()
	return launchOn(t, realMachine(t), in)
}

func launchOn(t testing.TB, m bwrap.Machine, in bwrap.Input) *bwrap.Launch {
	t.Helper()
	program, err := stub.Binary(m.Arch)
	if errors.Is(err, stub.ErrNotBuilt) && os.Getenv("PINFOLD_INTEGRATION") != "1" {
		t.Skip("the stub is not built")
	}
	must(t, err)
	filter, err := seccomp.Program(m.Arch, seccomp.Base)
	must(t, err)
	in.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
	if in.Dir == "" {
		in.Dir = "/"
	}
	l, err := bwrap.TranslateInput(in, m, bwrap.Options{Umask: 0o022, Parts: &bwrap.Parts{Stub: program, Filter: filter}})
	must(t, err)
	return l
}

// bare runs a command in the sandbox by the mounts alone: no stub, no checks,
// no Landlock.
func bare(t *testing.T, l *bwrap.Launch, command ...string) result {
	t.Helper()
	return start(t, l, nil, command)
}

// whole runs the launch's command as the supervisor does: the stub compares
// everything inside, applies Landlock and becomes the command.
func whole(t *testing.T, l *bwrap.Launch) result {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer ours.Close()
	_, err = ours.Write(wire.EncodeSignal(wire.Go)) // waits in the socket
	must(t, err)
	byHand := bwrap.ByHand(l)
	setup := fileOf(t, wire.EncodeSetup(&byHand))
	_, err = unix.FcntlInt(setup.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK)
	must(t, err)
	files := []*os.File{setup, theirs}
	if l.Stub == bwrap.StubFile {
		var program bytes.Buffer
		_, err := l.Data[len(l.Data)-1].WriteTo(&program)
		must(t, err)
		files = append(files, fileOf(t, nil), fileOf(t, program.Bytes()))
	}
	r := start(t, l, files, []string{l.Stub})
	theirs.Close()
	packet := make([]byte, 64<<10)
	for {
		n, err := ours.Read(packet)
		if n == 0 || err != nil {
			return r
		}
		if kind, _ := wire.PacketType(packet[:n]); kind == wire.Failed {
			f, err := wire.DecodeFailure(packet[:n])
			must(t, err)
			t.Errorf("the stub failed at %s %q: %s (errno %d)", f.Step, f.Path, f.Text, f.Errno)
		}
	}
}

// start hands bubblewrap its arguments and descriptors as a launch does.
func start(t *testing.T, l *bwrap.Launch, files []*os.File, command []string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	args := slices.Clone(l.Args)
	give := func(content []byte) string {
		files = append(files, fileOf(t, content))
		return strconv.Itoa(2 + len(files))
	}
	for _, d := range l.Data {
		i := slices.Index(args, "{fd:"+d.Name+"}")
		if d.Name == bwrap.DataStub && l.Stub == bwrap.StubFile {
			continue
		}
		if i < 0 {
			t.Fatalf("no argument takes descriptor %q", d.Name)
		}
		var content bytes.Buffer
		_, err := d.WriteTo(&content)
		must(t, err)
		args[i] = give(content.Bytes())
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
	// --die-with-parent means the thread that forked, prctl(2): it must not
	// be one that Go retires meanwhile.
	runtime.LockOSThread()
	err := cmd.Run()
	runtime.UnlockOSThread()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{out.String(), cmd.ProcessState.ExitCode()}
}

// fileOf is a descriptor that reads as content.
func fileOf(t testing.TB, content []byte) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("pinfold-test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	must(t, err)
	f := os.NewFile(uintptr(fd), "memfd")
	t.Cleanup(func() { f.Close() })
	_, err = f.Write(content)
	must(t, err)
	_, err = f.Seek(0, 0)
	must(t, err)
	return f
}

// say runs a script of tries twice, by the mounts alone and with every layer,
// and compares what each try said.
func say(t *testing.T, in bwrap.Input, tries []attempt) {
	t.Helper()
	in.Argv = []string{"/bin/sh", "-c", script(tries)}
	l := realLaunch(t, in)
	compareTries(t, "mounts", bare(t, l, in.Argv...), tries)
	compareTries(t, "all layers", whole(t, l), tries)
}

// script says yes or no for each try.
func script(tries []attempt) string {
	s := ""
	for _, a := range tries {
		s += "if (" + a.do + ") >/dev/null 2>&1; then echo yes; else echo no; fi\n"
	}
	return s
}

func compareTries(t *testing.T, name string, r result, tries []attempt) {
	t.Helper()
	got := strings.Fields(r.out)
	if len(got) != len(tries) || r.code != 0 {
		t.Errorf("%s: exit %d, got %q", name, r.code, r.out)
		return
	}
	for i, a := range tries {
		if got[i] != a.works {
			t.Errorf("%s: %s: got %s, wanted %s", name, a.do, got[i], a.works)
		}
	}
}

// attempt is a shell command, and whether it works inside: yes or no.
type attempt struct{ works, do string }

func mkdir(t *testing.T, path string) { t.Helper(); must(t, os.MkdirAll(path, 0o755)) }

func file(t *testing.T, path, content string) {
	t.Helper()
	mkdir(t, filepath.Dir(path))
	must(t, os.WriteFile(path, []byte(content), 0o644))
}
