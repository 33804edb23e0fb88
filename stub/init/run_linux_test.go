package main_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"pinfold/stub/wire"
)

func TestStatusAndOutput(t *testing.T) {
	t.Parallel()
	s := command("sh", "-c", "cat; echo err >&2; exit 7")
	s.stdin = strings.NewReader("in")
	r := s.ran(t)
	if r.code != 7 || r.stdout != "in" || r.stderr != "err\n" {
		t.Errorf("status %d, stdout %q, stderr %q", r.code, r.stdout, r.stderr)
	}
}

// The pid that comes with Hello is the command's, as the host counts, so
// signals sent to it arrive there.
func TestCredentials(t *testing.T) {
	t.Parallel()
	s := command("sleep", "60")
	s.onReady = func(t testing.TB, cred *unix.Ucred) {
		if cred == nil || cred.Pid <= 1 || int(cred.Uid) != os.Getuid() {
			t.Fatalf("credentials %+v", cred)
		}
		if err := unix.Kill(int(cred.Pid), unix.SIGTERM); err != nil {
			t.Error(err)
		}
	}
	if r := s.ran(t); r.code != 128+int(unix.SIGTERM) {
		t.Errorf("status %d, wanted that of SIGTERM", r.code)
	}
}

func TestArgvAndEnvironmentByteForByte(t *testing.T) {
	t.Parallel()
	argv := []string{"/bin/cat", "/proc/self/cmdline", "/proc/self/environ", "--", "", "\xff\n'\"$x", "é"}
	s := command(argv...)
	s.setup.Env = []string{"B=2", "A=\xfe\n", "B=3", "noequals", "LD_X="}
	r := s.ran(t)
	want := strings.Join(argv, "\x00") + "\x00" + strings.Join(s.setup.Env, "\x00") + "\x00"
	if r.stdout != want {
		t.Errorf("got %q, wanted %q", r.stdout, want)
	}
}

// bubblewrap passes on what it inherits; the command must not see it.
func TestNoDescriptorIsInherited(t *testing.T) {
	t.Parallel()
	dir, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	s := command("sh", "-c", "echo /proc/self/fd/*")
	s.extra = []*os.File{dir, dir, dir}
	r := s.ran(t)
	if got := strings.TrimSpace(r.stdout); got != "/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 /proc/self/fd/3" {
		t.Errorf("descriptors: %s (3 is the shell's own, of the directory)", got)
	}
}

func TestStateOfTheProcess(t *testing.T) {
	t.Parallel()
	s := command("sh", "-c", "cat /proc/self/status; umask; pwd; ulimit -n; ulimit -Hn")
	s.setup.Umask = 0o27
	s.setup.Dir = "/usr/bin"
	s.setup.Limits = []wire.Rlimit{{Resource: unix.RLIMIT_NOFILE, Soft: 99, Hard: 123}}
	r := s.ran(t)
	if !strings.HasSuffix(r.stdout, "\n0027\n/usr/bin\n99\n123\n") {
		t.Errorf("umask, directory, limits: %q", r.stdout[max(0, len(r.stdout)-40):])
	}
	got := lines(r.stdout)
	for key, want := range map[string]string{
		"CapInh": "0000000000000000", "CapPrm": "0000000000000000", "CapEff": "0000000000000000",
		"CapBnd": "0000000000000000", "CapAmb": "0000000000000000",
		"NoNewPrivs": "1", "Seccomp": "2",
		"SigBlk": "0000000000000000", "SigIgn": "0000000000000000", "SigCgt": "0000000000000000",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, wanted %q", key, got[key], want)
		}
	}
}

// Without a limit of its own the command gets the caller's, not the one that
// the Go runtime raises for itself.
func TestLimitIsTheCallers(t *testing.T) {
	t.Parallel()
	s := command("sh", "-c", "ulimit -Sn; ulimit -Hn")
	s.shell = "ulimit -Sn 77; ulimit -Hn 99"
	if got := s.ran(t).stdout; got != "77\n99\n" {
		t.Errorf("limits %q", got)
	}
}

// What a parent ignored is the default again, unless the orders say so.
func TestIgnoredSignals(t *testing.T) {
	t.Parallel()
	const hup, pipe = 1 << (unix.SIGHUP - 1), 1 << (unix.SIGPIPE - 1)
	s := command("cat", "/proc/self/status")
	s.shell = "trap '' HUP INT USR1 USR2 TERM"
	s.setup.IgnoreSignals = hup | pipe
	got := lines(s.ran(t).stdout)
	if got["SigIgn"] != "0000000000001001" || got["SigCgt"] != "0000000000000000" {
		t.Errorf("ignored %s, caught %s", got["SigIgn"], got["SigCgt"])
	}
}

func TestListenersAreHandedOut(t *testing.T) {
	t.Parallel()
	s := command("bash", "-c", `exec 3<>/dev/tcp/127.0.0.1/3128; echo hi >&3; read -r x <&3; echo "$x"
		exec 4<>/dev/tcp/::1/3129; read -r y <&4; echo "$y"`)
	s.setup.Listen = []string{"127.0.0.1:3128", "[::1]:3129"}
	done := make(chan string, 1)
	s.onHello = func(t testing.TB, fds []int) {
		four, six := listener(t, fds[0]), listener(t, fds[1])
		go func() { done <- serve(four) + serve(six) }()
	}
	r := s.ran(t)
	if r.stdout != "one\none\n" {
		t.Errorf("inside: %q", r.stdout)
	}
	if got := <-done; got != "" {
		t.Error(got)
	}
}

func listener(t testing.TB, fd int) net.Listener {
	t.Helper()
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(dup), "listener")
	defer f.Close()
	l, err := net.FileListener(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// serve answers one connection with "one".
func serve(l net.Listener) string {
	c, err := l.Accept()
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	if _, err := io.WriteString(c, "one\n"); err != nil {
		return err.Error()
	}
	return ""
}

func TestListenRefuses(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{
		"not loopback": "10.0.0.1:1", "any": "0.0.0.0:80", "name": "localhost:80", "no port": "127.0.0.1",
		"big port": "127.0.0.1:65536", "empty": "", "v6 any": "[::]:80", "garbage": "127.0.0.1:80x", "big part": "127.0.0.256:80",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := command("true")
			s.setup.Listen = []string{address}
			s.refused(t, wire.StepListen)
		})
	}
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	s := command("bash", "-c", `tty; stty size </dev/tty; ps -o tpgid= -p $$ | tr -d ' '; echo $$; echo out >&2; exit 3`)
	s.setup.TTY = 3 // standard error stays the caller's
	s.setup.Rows, s.setup.Cols = 33, 101
	text := make(chan string, 1)
	s.onHello = func(t testing.TB, fds []int) { go readTerminal(fds[0], text) }
	r := s.ran(t)
	got := strings.Fields(<-text)
	if len(got) != 5 || !strings.HasPrefix(got[0], "/dev/pts/") || got[1] != "33" || got[2] != "101" || got[3] != got[4] {
		t.Errorf("on the terminal: %q, wanted its name, 33 101, and the command in the foreground", got)
	}
	if r.code != 3 || r.stdout != "" || r.stderr != "out\n" {
		t.Errorf("status %d, stdout %q, stderr %q", r.code, r.stdout, r.stderr)
	}
}

// readTerminal reads a pty's master until its last slave is closed (EIO).
func readTerminal(fd int, text chan<- string) {
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		text <- err.Error()
		return
	}
	f := os.NewFile(uintptr(dup), "master")
	defer f.Close()
	var out bytes.Buffer
	_, _ = io.Copy(&out, bufio.NewReader(f))
	text <- out.String()
}

func TestWithoutTerminalThereIsNone(t *testing.T) {
	t.Parallel()
	r := command("sh", "-c", "tty; exec 3</dev/tty").ran(t)
	if !strings.Contains(r.stdout, "not a tty") || r.code == 0 {
		t.Errorf("status %d, stdout %q", r.code, r.stdout)
	}
}

func TestSetupRefusals(t *testing.T) {
	t.Parallel()
	version := command("true")
	version.setup.Version++
	for name, s := range map[string]*sandbox{
		"not sealed":    {unsealed: true, setup: command("true").setup},
		"empty":         {raw: []byte{}},
		"garbage":       {raw: []byte("garbage")},
		"other version": version,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s.refused(t, wire.StepSetup)
		})
	}
}

// Nothing runs without the supervisor's word.
func TestNoGo(t *testing.T) {
	t.Parallel()
	s := command("sh", "-c", "echo ran")
	s.noGo = true
	if f := s.refused(t, wire.StepHello); f.Errno != 0 {
		t.Errorf("errno %d", f.Errno)
	}
}

func TestPrivilegesRefuse(t *testing.T) {
	t.Parallel()
	filter := command("true")
	filter.noFilter = true
	caps := command("true")
	caps.keepCaps, caps.bwrap = true, []string{"--cap-add", "ALL"}
	for name, tc := range map[string]struct {
		s    *sandbox
		text string
	}{
		"no filter":    {filter, "no seccomp filter is in force"},
		"capabilities": {caps, "a capability is left"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.text, tc.s.refused(t, wire.StepPrivileges).Text); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestDirectoryRefuses(t *testing.T) {
	t.Parallel()
	s := command("true")
	s.setup.Dir = "/nonexistent"
	if f := s.refused(t, wire.StepDir); f.Path != "/nonexistent" || f.Errno != int(unix.ENOENT) {
		t.Errorf("got %+v", f)
	}
}

func TestLimitRefuses(t *testing.T) {
	t.Parallel()
	s := command("true")
	s.setup.Limits = []wire.Rlimit{{Resource: 99}}
	s.refused(t, wire.StepLimit)
}

// The command of a terminal is a child of the stub, and still starts from the
// same state. Of the caller's ignored signals it can keep those that the Go
// runtime leaves alone: a caller in Go knows of no others.
func TestTerminalCommandsState(t *testing.T) {
	t.Parallel()
	s := command("sh", "-c", "cat /proc/self/status >&2; ulimit -Sn >&2; echo /proc/self/fd/* >&2")
	s.shell = "trap '' USR1 HUP TSTP; ulimit -Sn 77"
	s.setup.IgnoreSignals = 1<<(unix.SIGHUP-1) | 1<<(unix.SIGTSTP-1)
	s.setup.TTY = wire.TTYStdin | wire.TTYStdout
	text := make(chan string, 1)
	s.onHello = func(t testing.TB, fds []int) { go readTerminal(fds[0], text) }
	r := s.ran(t)
	<-text
	got := lines(r.stderr)
	for key, want := range map[string]string{
		"SigBlk": "0000000000000000", "SigIgn": "0000000000080001", "SigCgt": "0000000000000000",
		"CapEff": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2",
	} {
		if got[key] != want {
			t.Errorf("%s is %q, wanted %q", key, got[key], want)
		}
	}
	if want := "\n77\n/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 /proc/self/fd/3\n"; !strings.HasSuffix(r.stderr, want) {
		t.Errorf("limit and descriptors %q, wanted %q", r.stderr[max(0, len(r.stderr)-80):], want)
	}
}
