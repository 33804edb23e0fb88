package seatbelt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"pinfold/plan"
	"pinfold/policy"
)

func TestRun(t *testing.T) {
	t.Parallel()
	l := newLab(t, "sh", "-c", `printf '%s|' "$0" "$@" "$PWD" "$(umask)" "$TMPDIR"; echo hi >file; env | sort >env; cat <&0; exit 7`, "a b", "c\xff")
	l.in.env = append(l.in.env, "DYLD_INSERT_LIBRARIES=x", "ODD=\xff\n'\"")
	out, _, exit := l.run()
	want := "a b|c\xff|" + l.workspace + "|0027|" + l.tmp + "|"
	if out != want || exit != (Exit{Code: 7, Reason: Exited}) {
		t.Errorf("got %q, %+v, want %q", out, exit, want)
	}
	env, err := os.ReadFile(filepath.Join(l.workspace, "env"))
	must(t, err)
	for _, v := range []string{"DYLD_INSERT_LIBRARIES=x", "ODD=\xff", "HOME=/nowhere", "TMPDIR=" + l.tmp} {
		if !strings.Contains(string(env), v) {
			t.Errorf("no %q in %q", v, env)
		}
	}
	if strings.Contains(strings.ToLower(string(env)), "proxy") {
		t.Errorf("no host is allowed, and yet: %s", env)
	}
}

func TestRecord(t *testing.T) {
	t.Parallel()
	l := newLab(t, "true")
	o := l.options()
	launch := l.translate()
	p, err := start(t.Context(), l.tool, launch, o)
	must(t, err)
	_, err = p.Wait()
	must(t, err)
	if u := p.Usage(); u.Source != "rusage" || u.CPUMS <= 0 || u.PeakMemory < 1<<18 {
		t.Errorf("got %+v", u)
	}
	dir := o.Record.Path()
	info, err := os.Stat(filepath.Join(dir, "profile.sb"))
	must(t, err)
	if info.Mode() != 0o400 {
		t.Errorf("the profile's mode is %v", info.Mode())
	}
	s, err := plan.ReadRecord(dir)
	must(t, err)
	digest, err := launch.Plan.Digest()
	must(t, err)
	if s.Digest != digest || s.Exit == nil || s.Exit.Code != 0 || s.Root.Command.PID != p.Pid() || s.Root.Command.StartTicks == 0 ||
		s.Root.Supervisor.PID != os.Getpid() || s.Root.Exe.Ino == 0 || s.Root.Fresh["{tmp}"] != l.tmp {
		t.Errorf("got %+v %+v %+v", s.Digest, s.Exit, s.Root)
	}
	must(t, o.Record.Close())
	must(t, plan.RemoveRecord(dir))
}

// TestPlanIsStable: directories and ports made for one launch don't show.
func TestPlanIsStable(t *testing.T) {
	t.Parallel()
	var digests []string
	l := newLab(t, "true")
	l.in.network.Allow = []policy.HostPattern{{Text: "a.example", Name: "a.example"}}
	for range 2 {
		l.tmp = filepath.Join(l.dir, fmt.Sprint("tmp", len(digests)))
		must(t, os.Mkdir(l.tmp, 0o700))
		d, err := l.translate().Plan.Digest()
		must(t, err)
		digests = append(digests, d)
	}
	if digests[0] != digests[1] {
		t.Error("the plan changes from run to run")
	}
	l.in.network.HostPorts = []uint16{5432}
	if d, err := l.translate().Plan.Digest(); err != nil || d == digests[0] {
		t.Errorf("a host port changes nothing, or %v", err)
	}
}

func TestNotRun(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	must(t, os.WriteFile(filepath.Join(l.workspace, "plain"), []byte("echo ran\n"), 0o600))
	must(t, os.WriteFile(filepath.Join(l.workspace, "lost"), []byte("#!/no/such/interpreter\n"), 0o700))
	for name, c := range map[string]struct {
		command string
		code    int
	}{
		"not found":       {"no-such-program", CodeNotFound},
		"path not found":  {"./no/such/program", CodeNotFound},
		"not executable":  {"./plain", CodeNotExecutable},
		"directory":       {".", CodeNotExecutable},
		"interpreter":     {"./lost", CodeNotFound},
		"beneath a file":  {"./plain/x", CodeNotFound},
		"empty directory": {l.tmp + "/x", CodeNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			sub := *l
			sub.t, sub.in.argv = t, []string{c.command}
			err := sub.fails()
			n, ok := err.(*NotRunError) //nolint:errorlint // exactly that
			if !ok || n.ExitCode() != c.code {
				t.Errorf("got %v, want code %d", err, c.code)
			}
		})
	}
}

// TestShellScript: a script without an interpreter line is the shell's.
func TestShellScript(t *testing.T) {
	t.Parallel()
	l := newLab(t, "./s", "x")
	must(t, os.WriteFile(filepath.Join(l.workspace, "s"), []byte("echo ran $1\n"), 0o700))
	if out, _, exit := l.run(); out != "ran x\n" || exit.Code != 0 {
		t.Errorf("got %q, %+v", out, exit)
	}
}

func TestBoundaryIsTried(t *testing.T) {
	t.Parallel()
	l := newLab(t, "true")
	inside := "exec " + l.inside + " " + fakeArg + " "
	for name, c := range map[string]struct{ tool, want string }{
		"no sandbox at all": {`while [ "$1" != -- ]; do shift; done; shift; exec "$@"`, "boundary_open"},
		"it can be read":    {inside + l.dir + ` "$@"`, "boundary_open"},
		"bad profile":       {"echo sandbox-exec: bad >&2; exit 65", "sandbox_exec_failed"},
		"killed":            {"kill -9 $$", "sandbox_exec_failed"},
		"says nothing":      {"exit 0", "sandbox_exec_failed"},
		"ready twice":       {`echo '{"ready":true}{"ready":true}' >&4; exit 0`, "launch_failed"},
		"babbles":           {"echo hello >&4; exit 0", "sandbox_exec_failed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sub := *l
			sub.t, sub.tool = t, sub.script(strings.ReplaceAll(name, " ", "-"), c.tool)
			if err := sub.fails(); code(err) != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// TestSetupTravels: whatever bytes arguments and paths hold.
func TestSetupTravels(t *testing.T) {
	t.Parallel()
	want := Setup{
		Argv: []string{"sh", "\xff\n"}, Dir: "/w/\xfe", Env: []string{"A=\xfd"}, Umask: 0o27, Files: 9, FileSize: 1 << 40,
		Claims: Claims{Unreadable: "/a", Unwritable: "/b", Unreached: "127.0.0.1:1", Unseen: 4711},
	}
	b, err := want.encode()
	must(t, err)
	got, err := decodeSetup(b)
	must(t, err)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, bad := range []string{"", "{", "{}", `{"Argv":["c2g="]}`} {
		if s, err := decodeSetup([]byte(bad)); err == nil {
			t.Errorf("%s: got %+v", bad, s)
		}
	}
}

// TestOthersAreTried: an answer about another process is a boundary that is
// open, whatever the error of a refusal is.
func TestOthersAreTried(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer []byte
		err    error
		broken bool
	}{
		"refused": {nil, unix.EPERM, false}, "not its own": {nil, unix.EINVAL, false}, "nothing": {nil, nil, false},
		"answered": {[]byte("\x01\x00\x00\x00/bin/x"), nil, true},
	} {
		asked := 0
		err := trySee(4711, func(pid int) ([]byte, error) { asked = pid; return c.answer, c.err })
		var b *brokenError
		if errors.As(err, &b) != c.broken || asked != 4711 {
			t.Errorf("%s: got %v of %d", name, err, asked)
		}
	}
}

func TestConnectIsTried(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer ln.Close()
	dir := t.TempDir()
	must(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o600))
	for _, c := range []Claims{
		{Unreadable: filepath.Join(dir, "f")},
		{Unreadable: filepath.Join(dir, "missing")}, // can't tell
	} {
		if err := prove(c); err == nil {
			t.Errorf("%+v: proven", c)
		}
	}
}

func TestSignals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		sig    unix.Signal
		want   Exit
	}{
		"handled": {`trap 'exit 3' USR1; echo ready; while :; do sleep 0.05; done`, unix.SIGUSR1, Exit{Code: 3, Reason: Exited}},
		"killed":  {`echo ready; exec sleep 60`, unix.SIGTERM, Exit{Code: 143, Signal: unix.SIGTERM, Reason: Signaled}},
		"kill":    {`trap '' TERM; echo ready; exec sleep 60`, unix.SIGKILL, Exit{Code: 137, Signal: unix.SIGKILL, Reason: Signaled}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "sh", "-c", c.script)
			p := l.startReady()
			must(t, p.Signal(c.sig))
			got, err := p.Wait()
			must(t, err)
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			if err := p.Signal(c.sig); err != os.ErrProcessDone { //nolint:errorlint // exactly that
				t.Errorf("after the end: %v", err)
			}
		})
	}
}

// startReady starts a command and waits until it has said something.
func (l *lab) startReady() *Process {
	l.t.Helper()
	r, w, err := os.Pipe()
	must(l.t, err)
	l.t.Cleanup(func() { r.Close() })
	o := l.options()
	o.Stdout = w
	p, err := start(l.t.Context(), l.tool, l.translate(), o)
	must(l.t, err)
	w.Close()
	l.t.Cleanup(func() { _ = p.Stop(0) })
	_, err = r.Read(make([]byte, 64))
	must(l.t, err)
	return p
}

func TestStop(t *testing.T) {
	t.Parallel()
	l := newLab(t, "sh", "-c", `trap '' TERM; echo ready; while :; do sleep 0.05; done`)
	p := l.startReady()
	must(t, p.Stop(100*time.Millisecond))
	if e, _ := p.Wait(); e.Reason != Interrupted || e.Stop != "kill" || e.Code != 137 {
		t.Errorf("got %+v", e)
	}
}

func TestTimeouts(t *testing.T) {
	t.Parallel()
	l := newLab(t, "sleep", "60")
	l.in.limits.Timeout = 2 * time.Second // a busy machine starts slowly
	if _, _, exit := l.run(); exit.Code != CodeTimeout || exit.Reason != Timeout || exit.Stop != "term" {
		t.Errorf("got %+v", exit)
	}
}

func TestInterruptedLaunch(t *testing.T) {
	t.Parallel()
	l := newLab(t, "true")
	l.tool = l.script("slow", "exec sleep 60")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := start(ctx, l.tool, l.translate(), l.options())
	if n, ok := err.(*NotRunError); !ok || n.Exit.Reason != Timeout { //nolint:errorlint // exactly that
		t.Errorf("got %v", err)
	}
}

// TestTree: what the command leaves behind is ended, in its group or not.
func TestTree(t *testing.T) {
	t.Parallel()
	l := newLab(t, "sh", "-c", `sleep 61 & echo $! >a; setsid sleep 62 & echo $! >b
		setsid sh -c 'sleep 1.5; exec sleep 63' & echo $! >c; sleep 1.3; echo ready`)
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("no setsid")
	}
	l.run()
	for _, name := range []string{"a", "b", "c"} {
		b, err := os.ReadFile(filepath.Join(l.workspace, name))
		must(t, err)
		var pid int
		fmt.Sscan(string(b), &pid)
		if p, ok, err := LookUp(pid); err != nil || ok && !p.Ended {
			t.Errorf("process %s (%d) still runs", name, pid)
		}
	}
}

// TestDescriptors: nothing that was left open gets inside.
func TestDescriptors(t *testing.T) {
	f, err := os.Open("/")
	must(t, err)
	defer f.Close()
	for _, fd := range []int{9, 200} {
		must(t, unix.Dup2(int(f.Fd()), fd))
		defer unix.Close(fd)
	}
	l := newLab(t, "sh", "-c", `ls /proc/self/fd | tr '\n' ' '`)
	// 3 is ls's own.
	if out, _, _ := l.run(); out != "0 1 2 3 " {
		t.Errorf("got %q", out)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	l := newLab(t, "sh", "-c", "ulimit -n; ulimit -f")
	l.in.limits = policy.Limits{Files: 77, FileSize: 1 << 20}
	if out, _, _ := l.run(); out != "77\n2048\n" && out != "77\n1024\n" {
		t.Errorf("got %q", out)
	}
}

// TestProxy: the command reaches a host through the run's port, with the
// password that is in its environment, and nobody else does.
func TestProxy(t *testing.T) {
	t.Parallel()
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("no curl")
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "served") })}
	go web.Serve(ln) //nolint:errcheck // closed with the test
	defer web.Close()
	host, err := policy.ParseHostPattern(ln.Addr().String())
	must(t, err)
	l := newLab(t, "sh", "-c", "unset NO_PROXY no_proxy; "+curl+" -sS http://$ADDR/; echo; "+curl+" -sS --noproxy '*' http://$ADDR/ 2>/dev/null || echo refused; "+
		curl+` -s -o /dev/null -w '%{http_code}\n' -x "http://${PINFOLD_PROXY##*@}" http://$ADDR/; `+curl+" -s -o /dev/null -w '%{http_code}\n' http://other.example/")
	l.in.network.Allow = []policy.HostPattern{host}
	l.in.env = append(l.in.env, "ADDR="+ln.Addr().String())
	out, errs, _ := l.run()
	if out != "served\nrefused\n407\n403\n" {
		t.Errorf("got %q, %q", out, errs)
	}
	if !slices.ContainsFunc(l.events.all(), isDenied("other.example:80")) {
		t.Errorf("no event of the denied host: %+v", l.events.all())
	}
}

// TestForward: what this process gets reaches the command's own handler.
// TestLoopback: nobody else listens on the port that the profile names, in
// neither family, until the run is over.
func TestLoopback(t *testing.T) {
	t.Parallel()
	l, held, err := listenLoopback()
	must(t, err)
	if held == nil {
		t.Skip("no ::1 here")
	}
	six := net.JoinHostPort("::1", strconv.Itoa(int(portOf(l))))
	if other, err := net.Listen("tcp", six); err == nil {
		other.Close()
		t.Errorf("%s is free", six)
	}
	if c, err := net.Dial("tcp", six); err == nil {
		c.Close()
		t.Errorf("%s takes connections", six)
	}
	must(t, held.Close())
	other, err := net.Listen("tcp", six)
	must(t, err)
	other.Close()
	l.Close()
	if portOf(nil) != 0 {
		t.Error("no listener has a port")
	}
}

func TestForward(t *testing.T) {
	l := newLab(t, "sh", "-c", `trap 'exit 9' USR2; echo ready; while :; do sleep 0.05; done`)
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	o := l.options()
	o.Stdout, o.Forward = w, true
	p, err := start(t.Context(), l.tool, l.translate(), o)
	must(t, err)
	w.Close()
	_, err = r.Read(make([]byte, 64))
	must(t, err)
	must(t, unix.Kill(os.Getpid(), unix.SIGUSR2))
	if e, err := p.Wait(); err != nil || e.Code != 9 {
		t.Errorf("got %+v, %v", e, err)
	}
}

// TestForwardedTooEarly: a signal before the command runs ends the launch.
func TestForwardedTooEarly(t *testing.T) {
	l := newLab(t, "true")
	l.tool = l.script("slow", "kill -TERM "+fmt.Sprint(os.Getpid())+"; exec sleep 60")
	o := l.options()
	o.Forward = true
	_, err := start(t.Context(), l.tool, l.translate(), o)
	if n, ok := err.(*NotRunError); !ok || n.Exit.Code != CodeSignal+int(unix.SIGTERM) { //nolint:errorlint // exactly that
		t.Errorf("got %v", err)
	}
}
