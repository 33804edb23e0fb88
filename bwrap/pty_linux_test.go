package bwrap_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// console is a person at an interactive shell in a terminal.
type console struct {
	t   *testing.T
	tty *os.File // the master: what the person types and sees
	out *gathered
	cmd *exec.Cmd
}

const prompt = "OUTER> "

// newConsole starts the shell. There, h SCRIPT supervises a script.
func newConsole(t *testing.T) *console {
	t.Helper()
	realMachine(t)
	exe, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), "bash", "--norc", "--noprofile", "--noediting", "-i")
	cmd.Env = append(os.Environ(), "PS1="+prompt, "TERM=dumb", "EXE="+exe)
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 30, Cols: 111})
	must(t, err)
	c := &console{t: t, tty: tty, cmd: cmd, out: gatherFrom(tty)}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		tty.Close()
	})
	c.see(prompt)
	c.run(`h() { ` + helperScript + `="$1" "$EXE" -test.run=^TestHelperProcess$; }`)
	return c
}

func (c *console) typeIn(keys string) {
	c.t.Helper()
	_, err := c.tty.WriteString(keys)
	must(c.t, err)
}

func (c *console) see(text string) string {
	c.t.Helper()
	return c.out.until(c.t, text)
}

// run types a line and answers what the shell says up to its next prompt.
func (c *console) run(line string) string {
	c.t.Helper()
	c.typeIn(line + "\n")
	return c.answer(line)
}

// answer is what comes between the echo of a line and the prompt.
func (c *console) answer(line string) string {
	c.t.Helper()
	got := strings.TrimSuffix(c.see(prompt), prompt)
	_, after, found := strings.Cut(got, line+"\r\n")
	if !found {
		return got
	}
	return after
}

// modes are the outer terminal's, as its shell sees them.
func (c *console) modes() string {
	c.t.Helper()
	return strings.TrimSpace(c.run("stty -g"))
}

func TestTerminalInterrupt(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	before := c.modes()
	c.typeIn(`h 'n=0; trap "n=\$((n+1)); echo INT\$n" INT; echo rea""dy; while [ $n -lt 2 ]; do sleep 0.05; done; exit 5'` + "\n")
	c.see("ready\r\n")
	c.typeIn("\x03")
	c.see("INT1\r\n")
	time.Sleep(300 * time.Millisecond) // a second one would come now
	c.typeIn("\x03")
	if got := c.see("INT2\r\n"); strings.Contains(got, "INT3") {
		t.Errorf("Ctrl-C came more than once: %q", got)
	}
	c.see(prompt)
	if got := c.run("echo code=$?"); got != "code=5\r\n" {
		t.Errorf("got %q", got)
	}
	if after := c.modes(); after != before {
		t.Errorf("the terminal was %s and is %s", before, after)
	}
}

func TestTerminalSuspend(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	before := c.modes()
	for range 2 {
		c.typeIn(`h 'echo rea""dy; read x; echo got $x; read x; exit 6'` + "\n")
		c.see("ready\r\n")
		c.typeIn("\x1a")
		c.see("Stopped")
		c.see(prompt)
		if got := c.modes(); got != before {
			t.Errorf("stopped, the terminal is %s, was %s", got, before)
		}
		c.typeIn("fg\n")
		c.see("TestHelperProcess")
		c.typeIn("hello\n")
		c.see("got hello\r\n")
		c.typeIn("\x1a")
		c.see("Stopped")
		c.see(prompt)
		if got := c.run("bg"); !strings.Contains(got, "&") {
			t.Errorf("bg: %q", got)
		}
		if got := c.modes(); got != before {
			t.Errorf("in the background, the terminal is %s, was %s", got, before)
		}
		// In front again without having been stopped: no signal says so.
		c.typeIn("fg\n")
		c.see("TestHelperProcess")
		c.typeIn("x\n")
		c.see(prompt)
		if got := c.run("echo code=$?"); got != "code=6\r\n" {
			t.Errorf("got %q", got)
		}
		if got := c.modes(); got != before {
			t.Errorf("afterwards, the terminal is %s, was %s", got, before)
		}
	}
}

// A shell inside has job control of its own.
func TestTerminalShell(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	before := c.modes()
	c.typeIn("h bash\n")
	c.see("bash-")
	c.typeIn("PS1='INNER''> '\n")
	c.see("INNER> ")
	inner := func(line, want string) {
		t.Helper()
		c.typeIn(line + "\n")
		if got := c.see("INNER> "); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, wanted %q", line, got, want)
		}
	}
	inner("tty", "/dev/pts/0")
	inner("stty size", "30 111")
	must(t, pty.Setsize(c.tty, &pty.Winsize{Rows: 41, Cols: 99}))
	inner(`until [ "$(stty size)" = "41 99" ]; do :; done`, "") // the signal has no echo
	// The shell says nothing when a job is in front, so the job does. It forks
	// no more: a process that waits in vfork(2) can't be stopped.
	c.typeIn(`sh -c 'trap "echo on\"\"ward" CONT; echo run""ning; read x; read x'` + "\n")
	c.see("running\r\n")
	c.typeIn("\x1a")
	c.see("Stopped")
	c.see("INNER> ")
	inner("jobs", "Stopped")
	c.typeIn("fg\n")
	c.see("onward\r\n")
	c.typeIn("\x03")
	c.see("INNER> ")
	inner("echo $?", "130")
	c.typeIn("suspend -f\n") // the shell itself, and so the supervisor
	c.see("Stopped")
	c.see(prompt)
	c.typeIn("fg\n")
	c.see("TestHelperProcess")
	c.typeIn("echo o''n\n")
	c.see("on\r\n")
	c.see("INNER> ")
	c.typeIn("exit 3\n")
	c.see(prompt)
	if got := c.run("echo code=$?"); got != "code=3\r\n" {
		t.Errorf("got %q", got)
	}
	if got := c.modes(); got != before {
		t.Errorf("the terminal was %s and is %s", before, got)
	}
}

func TestTerminalStreams(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	dir := lab(t)
	if got := c.run(`h 'for i in 0 1 2; do test -t $i && echo -n y || echo -n n; done' | cat`); got != "yny" {
		t.Errorf("output to a pipe: %q", got)
	}
	if got := c.run(`echo in | h 'for i in 0 1 2; do test -t $i && echo -n y || echo -n n; done; (: </dev/tty) 2>/dev/null && echo -n tty'`); got != "nyy" {
		t.Errorf("input from a pipe: %q", got)
	}
	if got := c.run(`h 'printf "a\nb\n"' > ` + dir + `/o; od -An -c ` + dir + `/o`); !strings.Contains(got, `a  \n   b  \n`) {
		t.Errorf("output to a file: %q", got)
	}
	if got := c.run(`h 'seq 30000 >&2'`); !strings.HasSuffix(got, "\r\n29999\r\n30000\r\n") || strings.Count(got, "\n") != 30000 {
		t.Errorf("output was lost: %d lines", strings.Count(got, "\n"))
	}
	c.typeIn(`h 'cat; echo e""nd'` + "\n")
	c.typeIn("some\n")
	c.see("some\r\nsome\r\n")
	c.typeIn("\x04")
	c.see("end\r\n")
	c.see(prompt)
}

// In the background nothing is done to the terminal, and what is typed there
// isn't taken.
func TestTerminalBackground(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	before := c.modes()
	c.run(`h 'cat >/dev/null & sleep 0.6; echo do""ne; exit 7' & true`)
	if got := c.modes(); got != before {
		t.Errorf("the terminal was %s and is %s", before, got)
	}
	if got := c.run("echo typed"); !strings.Contains(got, "typed\r\n") {
		t.Errorf("got %q", got)
	}
	if got := c.run("wait %1; echo code=$?"); !strings.Contains(got, "done\r\n") || !strings.Contains(got, "code=7\r\n") {
		t.Errorf("got %q", got)
	}
	if got := c.modes(); got != before {
		t.Errorf("the terminal was %s and is %s", before, got)
	}
}

// The terminal is given back when the run is ended from elsewhere, or can't
// begin.
func TestTerminalRestored(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	before := c.modes()
	c.typeIn(`h 'echo pid rea""dy; sleep 1000'` + "\n")
	c.see("ready\r\n")
	for _, pid := range childrenOf(t, c.cmd.Process.Pid) {
		must(t, unix.Kill(pid, unix.SIGTERM))
	}
	c.see(prompt)
	if got := c.run("echo code=$?"); got != "code=143\r\n" {
		t.Errorf("got %q", got)
	}
	if got := c.modes(); got != before {
		t.Errorf("the terminal was %s and is %s", before, got)
	}
}

func childrenOf(t *testing.T, pid int) []int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	must(t, err)
	var pids []int
	for _, f := range strings.Fields(string(b)) {
		var n int
		_, err := fmt.Sscan(f, &n)
		must(t, err)
		pids = append(pids, n)
	}
	return pids
}

// In a pipeline the keys are the other program's until the command asks for
// them, and a command that does gets them.
func TestTerminalPipeline(t *testing.T) {
	t.Parallel()
	c := newConsole(t)
	before := c.modes()
	c.typeIn(`h 'echo a; sleep 0.3; echo b' | { read -r x; read -r y </dev/tty; read -r z; echo "$x $y $z"; }` + "\n")
	time.Sleep(200 * time.Millisecond) // until the command runs
	c.typeIn("key\n")
	c.see("a key b\r\n")
	c.see(prompt)
	c.typeIn(`h 'read -r x; echo got $x; read -r x; echo got $x' | cat` + "\n")
	for _, word := range []string{"one", "two"} {
		c.typeIn(word + "\n")
		c.see("got " + word + "\r\n")
	}
	c.see(prompt)
	c.typeIn(`h 'echo rea""dy; read -r x; echo got $x' | cat` + "\n")
	c.see("ready\r\n")
	c.typeIn("\x1a")
	c.see("Stopped")
	c.see(prompt)
	if got := c.modes(); got != before {
		t.Errorf("stopped, the terminal is %s, was %s", got, before)
	}
	c.typeIn("fg\n")
	c.see("cat")
	c.typeIn("more\n")
	c.see("got more\r\n")
	c.see(prompt)
	if got := c.modes(); got != before {
		t.Errorf("afterwards, the terminal is %s, was %s", got, before)
	}
}
