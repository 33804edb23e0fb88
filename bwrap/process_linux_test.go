package bwrap_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/bwrap"
	"pinfold/guard"
	"pinfold/policy"
)

// said is what a run wrote, and how it ended.
type said struct {
	out, err string
	exit     bwrap.Exit
}

// runIn supervises a launch of a command, with input and its streams as pipes.
func runIn(t *testing.T, in bwrap.Input, o bwrap.StartOptions, input string) said {
	t.Helper()
	r, err := startLaunch(t, t.Context(), realLaunch(t, in), o, input)
	must(t, err)
	return r.wait(t)
}

// running is a process whose output is collected.
type running struct {
	*bwrap.Process
	out, err *gathered
}

func (r *running) wait(t *testing.T) said {
	t.Helper()
	e, err := r.Wait()
	must(t, err)
	return said{out: r.out.all(), err: r.err.all(), exit: e}
}

func startLaunch(t *testing.T, ctx context.Context, l *bwrap.Launch, o bwrap.StartOptions, input string) (*running, error) {
	t.Helper()
	r := &running{}
	var outW, errW *os.File
	outW, r.out = gather(t)
	errW, r.err = gather(t)
	inR, inW, err := os.Pipe()
	must(t, err)
	go func() {
		_, _ = io.WriteString(inW, input)
		inW.Close()
	}()
	o.Streams = bwrap.Streams{Stdin: inR, Stdout: outW, Stderr: errW}
	r.Process, err = bwrap.Start(ctx, l, o)
	inR.Close()
	outW.Close()
	errW.Close()
	return r, err
}

// gathered is what came out of a descriptor so far.
type gathered struct {
	mu   sync.Mutex
	more *sync.Cond
	b    []byte
	done bool
}

// gather reads the other end of a pipe.
func gather(t *testing.T) (*os.File, *gathered) {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	return w, gatherFrom(r)
}

func gatherFrom(r io.ReadCloser) *gathered {
	g := &gathered{}
	g.more = sync.NewCond(&g.mu)
	go func() {
		defer r.Close()
		buf := make([]byte, 4096)
		for {
			n, err := r.Read(buf)
			g.mu.Lock()
			g.b, g.done = append(g.b, buf[:n]...), err != nil
			g.mu.Unlock()
			g.more.Broadcast()
			if err != nil {
				return
			}
		}
	}()
	return g
}

// all is everything, once the last writer has gone.
func (g *gathered) all() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	for !g.done {
		g.more.Wait()
	}
	return string(g.b)
}

// until waits for a text, and answers what came up to its end.
func (g *gathered) until(t *testing.T, text string) string {
	t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	timer := time.AfterFunc(20*time.Second, func() {
		g.mu.Lock()
		g.done = true
		g.mu.Unlock()
		g.more.Broadcast()
	})
	defer timer.Stop()
	for {
		if i := bytes.Index(g.b, []byte(text)); i >= 0 {
			seen := string(g.b[:i+len(text)])
			g.b = g.b[i+len(text):]
			return seen
		}
		if g.done {
			t.Fatalf("%q never came; got %q", text, g.b)
		}
		g.more.Wait()
	}
}

// command is a launch of a shell script, with nothing granted.
func command(script string) bwrap.Input {
	return bwrap.Input{Argv: []string{"/bin/sh", "-c", script}}
}

func TestRunStreams(t *testing.T) {
	t.Parallel()
	got := runIn(t, command("cat; echo err >&2; exit 7"), bwrap.StartOptions{}, "in\n")
	if got.out != "in\n" || got.err != "err\n" || got.exit != (bwrap.Exit{Code: 7, Reason: bwrap.Exited}) {
		t.Errorf("got %+v", got)
	}
}

func TestRunExits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		want   bwrap.Exit
	}{
		"zero":   {"true", bwrap.Exit{Reason: bwrap.Exited}},
		"high":   {"exit 255", bwrap.Exit{Code: 255, Reason: bwrap.Exited}},
		"signal": {"kill -USR1 $$", bwrap.Exit{Code: 138, Signal: unix.SIGUSR1, Reason: bwrap.Signaled}},
		"kill":   {"kill -KILL $$", bwrap.Exit{Code: 137, Signal: unix.SIGKILL, Reason: bwrap.Signaled}},
		// The same number, and no signal.
		"code of a signal": {"exit 137", bwrap.Exit{Code: 137, Reason: bwrap.Exited}},
		// Nothing of bubblewrap is in the group that this reaches.
		"own group": {"trap '' TERM; kill -TERM 0; exit 3", bwrap.Exit{Code: 3, Reason: bwrap.Exited}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := runIn(t, command(c.script), bwrap.StartOptions{}, "")
			if c.want.Signal != 0 && !hasExitInfo() {
				c.want.Signal, c.want.Reason = 0, bwrap.Exited
			}
			if got.exit != c.want || got.err != "" {
				t.Errorf("got %+v, wanted %+v", got, c.want)
			}
		})
	}
}

// hasExitInfo reports whether the kernel tells how a process ended that isn't
// a child (PIDFD_INFO_EXIT, Linux 6.15).
func hasExitInfo() bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	major, rest, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), ".")
	minor, _, _ := strings.Cut(rest, ".")
	return major > "6" && len(major) == 1 || major == "6" && len(minor) > 1 && minor >= "15"
}

func TestRunNotExecutable(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	file(t, dir+"/plain", "no program\x00")
	for name, c := range map[string]struct {
		argv []string
		code int
	}{
		"missing":       {[]string{"/nonexistent/x"}, bwrap.CodeNotFound},
		"not on PATH":   {[]string{"no-such-command-here"}, bwrap.CodeNotFound},
		"directory":     {[]string{"/usr"}, bwrap.CodeNotExecutable},
		"not permitted": {[]string{dir + "/plain"}, bwrap.CodeNotExecutable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := startLaunch(t, t.Context(), realLaunch(t, bwrap.Input{Argv: c.argv}), bwrap.StartOptions{}, "")
			e, ok := errors.AsType[*bwrap.NotRunError](err)
			if !ok || e.ExitCode() != c.code || !strings.Contains(err.Error(), c.argv[0]) {
				t.Errorf("got %v (%+v), wanted code %d", err, e, c.code)
			}
		})
	}
}

// A path that isn't what the guard saw refuses the launch, and nothing runs.
func TestRunBoundaryMismatch(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	mkdir(t, dir+"/w")
	in := command("echo ran > " + dir + "/w/ran")
	in.Entries = []guard.Entry{entry(t, dir+"/w", guard.ReadWrite)}
	l := realLaunch(t, in)
	must(t, os.Rename(dir+"/w", dir+"/old"))
	mkdir(t, dir+"/w")
	_, err := startLaunch(t, t.Context(), l, bwrap.StartOptions{}, "")
	r, ok := errors.AsType[*policy.Refusal](err)
	if !ok || r.Reason != policy.Unavailable || r.Code != "boundary_mismatch" || r.Subject != dir+"/w" {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(dir + "/w/ran"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the command ran: %v", err)
	}
}

// What bubblewrap says is detail of a refusal, and never on the command's
// streams.
func TestRunBwrapFails(t *testing.T) {
	t.Parallel()
	l := realLaunch(t, command("true"))
	l.Args = append(l.Args, "--bind", "/nonexistent/source", "/tmp/x")
	r, err := startLaunch(t, t.Context(), l, bwrap.StartOptions{}, "")
	f, ok := errors.AsType[*policy.Refusal](err)
	if !ok || f.Code != "bwrap_failed" || f.Reason != policy.Unavailable || !strings.Contains(f.Why, "/nonexistent/source") {
		t.Errorf("got %v", err)
	}
	if out, errs := r.out.all(), r.err.all(); out+errs != "" {
		t.Errorf("said %q %q", out, errs)
	}
}

func TestRunBwrapMissing(t *testing.T) {
	t.Parallel()
	l := realLaunch(t, command("true"))
	l.Plan.Tool.Path = "/nonexistent/bwrap"
	_, err := startLaunch(t, t.Context(), l, bwrap.StartOptions{}, "")
	if f, ok := errors.AsType[*policy.Refusal](err); !ok || f.Code != "bwrap_failed" || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// The command has the standard descriptors and no other, whatever this
// process holds; bubblewrap and the stub have no environment.
func TestRunInheritsNothing(t *testing.T) {
	dir := lab(t)
	leak, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0) // not close-on-exec
	must(t, err)
	defer unix.Close(leak)
	t.Setenv("LD_PRELOAD", "/nonexistent/evil.so")
	t.Setenv("GODEBUG", "inittrace=1") // the stub would print
	got := runIn(t, command("ls /proc/self/fd | tr '\\n' ' '; env"), bwrap.StartOptions{}, "")
	want := "0 1 2 3 " // 3 is ls's own
	if !strings.HasPrefix(got.out, want) || strings.Contains(got.out, "LD_PRELOAD") || strings.Contains(got.out, "GODEBUG") || got.err != "" {
		t.Errorf("got %+v", got)
	}
}

// A run without streams has /dev/null.
func TestRunWithoutStreams(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	mkdir(t, dir+"/w")
	in := command("exec 9>" + dir + "/w/o; x=$(readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2); echo $x >&9; cat; echo x; echo x >&2")
	in.Entries = []guard.Entry{entry(t, dir+"/w", guard.ReadWrite)}
	p, err := bwrap.Start(t.Context(), realLaunch(t, in), bwrap.StartOptions{})
	must(t, err)
	e, err := p.Wait()
	must(t, err)
	b, err := os.ReadFile(dir + "/w/o")
	must(t, err)
	if e.Code != 0 || strings.Count(string(b), "/dev/null") != 3 {
		t.Errorf("got %+v, %q", e, b)
	}
}

// The caller's own streams stay as they are: O_NONBLOCK belongs to everybody
// who shares the open file. A pipe of Go's becomes what commands expect.
func TestRunLeavesFlags(t *testing.T) {
	t.Parallel()
	cmd := helper(t, "grep flags /proc/self/fdinfo/1", helperNonblock+"=1")
	w, out := gather(t)
	cmd.Stdout = w
	must(t, cmd.Run())
	nonblock := isNonblock(t, w)
	w.Close()
	if got := out.all(); got != "flags:\t0104001\n" && got != "flags:\t04001\n" || !nonblock {
		t.Errorf("inside %q, non-blocking outside %v", got, nonblock)
	}
	got := runIn(t, command("grep flags /proc/self/fdinfo/1"), bwrap.StartOptions{}, "")
	if got.out != "flags:\t0100001\n" && got.out != "flags:\t01\n" {
		t.Errorf("a pipe of Go's is %q inside", got.out)
	}
}

// isNonblock looks without [os.File.Fd], which would change it.
func isNonblock(t *testing.T, f *os.File) bool {
	t.Helper()
	c, err := f.SyscallConn()
	must(t, err)
	var flags int
	var ferr error
	must(t, c.Control(func(fd uintptr) { flags, ferr = unix.FcntlInt(fd, unix.F_GETFL, 0) }))
	must(t, ferr)
	return flags&unix.O_NONBLOCK != 0
}

func TestRunTimeout(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script, stop string
		grace        time.Duration
	}{
		"hears": {"trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done", "term", 20 * time.Second},
		"deaf":  {"trap '' TERM; echo ready; while :; do sleep 0.01; done", "kill", 100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer cancel()
			r, err := startLaunch(t, ctx, realLaunch(t, command(c.script)), bwrap.StartOptions{Grace: c.grace}, "")
			must(t, err)
			got := r.wait(t)
			want := bwrap.Exit{Code: bwrap.CodeTimeout, Reason: bwrap.Timeout, Stop: c.stop, Signal: got.exit.Signal}
			if got.exit != want || got.out != "ready\n" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	r, err := startLaunch(t, t.Context(), realLaunch(t, command("trap 'echo bye; exit 5' TERM; echo ready; kill -STOP $$; while :; do sleep 0.01; done")), bwrap.StartOptions{}, "")
	must(t, err)
	r.out.until(t, "ready\n")
	must(t, r.Stop(10*time.Second)) // a stopped command hears too
	got := r.wait(t)
	want := bwrap.Exit{Code: 5, Reason: bwrap.Interrupted, Stop: "term"}
	if got.exit != want || got.out != "bye\n" {
		t.Errorf("got %+v", got)
	}
	if err := r.Signal(unix.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("a signal to an ended command: %v", err)
	}
}

// Whatever the command leaves behind ends with it, and its zombies are reaped
// meanwhile.
func TestRunLeavesNothing(t *testing.T) {
	t.Parallel()
	mark := "3599" + time.Now().Format("150405.000000")
	got := runIn(t, command("(setsid sleep "+mark+" &) ; for i in 1 2 3; do (true &); done; sleep 0.2; ps -eo stat= | grep -c Z"), bwrap.StartOptions{}, "")
	if strings.TrimSpace(got.out) != "0" {
		t.Errorf("zombies: %q", got.out)
	}
	if pids := findProcesses(t, mark); len(pids) > 0 {
		t.Errorf("processes left: %v", pids)
	}
}

// findProcesses are the processes with a word in their command line.
func findProcesses(t *testing.T, word string) []string {
	t.Helper()
	dirs, err := os.ReadDir("/proc")
	must(t, err)
	var pids []string
	for _, d := range dirs {
		b, err := os.ReadFile("/proc/" + d.Name() + "/cmdline")
		if err == nil && bytes.Contains(b, []byte(word)) {
			pids = append(pids, d.Name())
		}
	}
	return pids
}

// A caller's context that ends during the launch ends it, whenever that is.
func TestStartCancelled(t *testing.T) {
	t.Parallel()
	l := realLaunch(t, command("sleep 60"))
	for i := range 12 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i*4)*time.Millisecond)
		r, err := startLaunch(t, ctx, l, bwrap.StartOptions{Grace: time.Millisecond}, "")
		if err == nil {
			if e := r.wait(t).exit; e.Code != bwrap.CodeTimeout {
				t.Errorf("after %d ms: %+v", i*4, e)
			}
		} else if e, ok := errors.AsType[*bwrap.NotRunError](err); !ok || e.ExitCode() != bwrap.CodeTimeout {
			t.Errorf("after %d ms: %v", i*4, err)
		}
		cancel()
	}
}
