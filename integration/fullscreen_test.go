//go:build linux

package integration_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// screen is a terminal with a shell in it, driven by keys and read as a person
// reads it: what stands on it now, not what was written.
type screen struct {
	t      *testing.T
	socket string
	env    []string
}

// newScreen starts one, in the workspace.
func (l *lab) newScreen(t *testing.T, shell string) *screen {
	t.Helper()
	for _, name := range []string{"tmux", shell} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip("no " + name)
		}
	}
	s := &screen{t: t, socket: filepath.Join(l.root, "tmux"), env: append(l.env(), "TERM=screen", "ENV=/dev/null")}
	run := map[string]string{"bash": "bash --norc --noprofile -i", "dash": "dash -i"}[shell]
	s.tmux("-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", "-c", l.ws, run)
	t.Cleanup(func() { s.tmux("kill-server") })
	s.keys("PS1='READY> '; clear", "Enter")
	s.await("READY>")
	return s
}

func (s *screen) tmux(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-S", s.socket}, args...)...)
	cmd.Env = s.env
	out, err := cmd.CombinedOutput()
	if err != nil && args[0] != "kill-server" {
		s.t.Fatalf("tmux %v: %v\n%s", args, err, out)
	}
	return string(out)
}

func (s *screen) keys(keys ...string) {
	s.t.Helper()
	s.tmux(append([]string{"send-keys"}, keys...)...)
}

// await waits until a line of the screen is what is wanted, or begins so.
func (s *screen) await(line string) {
	s.t.Helper()
	var shown string
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		shown = s.tmux("capture-pane", "-p")
		for l := range strings.Lines(shown) {
			if strings.HasPrefix(strings.TrimLeft(l, " "), line) {
				return
			}
		}
	}
	s.t.Fatalf("no line begins with %q:\n%s", line, shown)
}

// clear leaves nothing of before on the screen.
func (s *screen) clear() {
	s.t.Helper()
	s.keys("clear", "Enter")
	var shown string
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if shown = strings.TrimSpace(s.tmux("capture-pane", "-p")); shown == "READY>" {
			return
		}
	}
	s.t.Fatalf("the screen isn't clear:\n%s", shown)
}

// prompted waits for the shell's prompt with nothing typed after it. The line
// that started the program begins with one too.
func (s *screen) prompted() {
	s.t.Helper()
	var shown string
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		shown = strings.TrimSpace(s.tmux("capture-pane", "-p"))
		if shown == "READY>" || strings.HasSuffix(shown, "\nREADY>") {
			return
		}
	}
	s.t.Fatalf("there is no prompt:\n%s", shown)
}

// sane checks the modes of the terminal, once the shell is back: what is typed
// before that is the program's.
func (s *screen) sane() {
	s.t.Helper()
	s.prompted()
	s.clear()
	s.keys("stty -a | tr ' ;' '\\n\\n' | grep -x -e icanon -e echo -e isig -e opost -e icrnl | sort | tr '\\n' '+'", "Enter")
	s.await("echo+icanon+icrnl+isig+opost+")
	s.clear()
}

func (l *lab) typed(t *testing.T, command string) string {
	t.Helper()
	return fmt.Sprintf("%s wrap --quiet --workspace %s --state %s --policy %s -- %s", built.pinfold, l.ws, l.state, l.policyFile(t, workspaceOnly()), command)
}

func TestFullScreenPrograms(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "dash"} {
		t.Run(shell, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			var lines strings.Builder
			for i := range 500 {
				fmt.Fprintf(&lines, "%d\n", i+1)
			}
			write(t, l.ws+"/lines.txt", lines.String(), 0o644)
			s := l.newScreen(t, shell)
			s.vim(l.typed(t, "vim -u NONE -N lines.txt"))
			s.less(l.typed(t, "less lines.txt"))
			s.top(l.typed(t, "top -d 0.5"))
			s.keys(l.typed(t, `sh -c 'stty raw -echo; kill -KILL $$'`)+"; echo 'BA''CK'", "Enter")
			s.await("BACK")
			s.sane()
			if got := read(t, l.ws+"/lines.txt"); !strings.HasPrefix(got, "typed\n1\n2\n") {
				t.Errorf("what vim wrote begins with %.20q", got)
			}
		})
	}
}

func (s *screen) vim(command string) {
	s.t.Helper()
	s.keys(command, "Enter")
	s.await(`"lines.txt"`)
	s.keys("Otyped", "Escape", ":set number", "Enter", "G")
	s.await("501 500")
	s.tmux("resize-window", "-x", "80", "-y", "20")
	eventually(s.t, "vim knows the new size", func() bool { // a redraw takes its message away
		s.keys(":echo 'size' &lines &columns", "Enter")
		time.Sleep(200 * time.Millisecond)
		return strings.Contains(s.tmux("capture-pane", "-p"), "size 20 80")
	})
	s.keys("C-z")
	s.await("READY>")
	s.keys("fg", "Enter")
	s.await("501 500")
	s.keys(":wq", "Enter")
	s.sane()
}

func (s *screen) less(command string) {
	s.t.Helper()
	s.keys(command, "Enter")
	s.await("typed")
	s.keys("/333", "Enter")
	s.await("333")
	s.keys("q")
	s.sane()
}

func (s *screen) top(command string) {
	s.t.Helper()
	s.keys(command, "Enter")
	s.await("Tasks:")
	s.tmux("resize-window", "-x", "100", "-y", "30")
	s.keys("q")
	s.sane()
}

// A hundred megabytes arrive whole and in order, while the window changes its
// size all the time.
func TestTerminalFlood(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := l.terminal(t, launch{policy: workspaceOnly(), argv: []string{"sh", "-c", "echo begin; head -c 104857600 /dev/zero | tr '\\0' 'x' | fold -w 99; echo end"}, flags: []string{"--quiet"}})
	must(t, s.master.SetReadDeadline(time.Now().Add(50*time.Second)))
	stop, stormed := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for ; ; n++ {
			select {
			case <-stop:
				stormed <- n
				return
			case <-time.After(time.Millisecond):
				_ = pty.Setsize(s.master, &pty.Winsize{Rows: uint16(10 + n%50), Cols: uint16(40 + n%100)})
			}
		}
	}()
	sum := sha256.New()
	n, err := io.Copy(withoutCR{sum}, s.master)
	close(stop)
	t.Logf("%d sizes, %d bytes, end by %v", <-stormed, n, err)
	_ = s.wait()
	want := sha256.New()
	fmt.Fprintln(want, "begin")
	line := append(bytes.Repeat([]byte("x"), 99), '\n')
	for range 104857600 / 99 {
		want.Write(line)
	}
	want.Write(bytes.Repeat([]byte("x"), 104857600%99))
	fmt.Fprintln(want, "end") // fold ends without a newline where its input does
	if !bytes.Equal(sum.Sum(nil), want.Sum(nil)) || s.state().ExitCode() != 0 {
		t.Errorf("the output isn't what was written, or exit %d", s.state().ExitCode())
	}
}

// withoutCR drops what a terminal adds to line ends.
type withoutCR struct{ io.Writer }

func (w withoutCR) Write(b []byte) (int, error) {
	_, err := w.Writer.Write(bytes.ReplaceAll(b, []byte("\r"), nil))
	return len(b), err
}

// A resize storm ends with the last size, and with the command told of it.
func TestResizeStorm(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := l.terminal(t, launch{policy: workspaceOnly(), argv: []string{"sh", "-c", "trap 'stty size' WINCH; echo up; while :; do sleep 0.05; done"}, flags: []string{"--quiet"}})
	s.await("up")
	for i := range 2000 {
		must(t, pty.Setsize(s.master, &pty.Winsize{Rows: uint16(20 + i%10), Cols: uint16(60 + i%30)}))
	}
	must(t, pty.Setsize(s.master, &pty.Winsize{Rows: 33, Cols: 77}))
	s.await("33 77")
	s.send("\x03")
	s.end()
}

// The operator's own terminal has its modes again when the command was killed
// in the middle of a full-screen program, and when pinfold itself was asked to
// end.
func TestModesAfterKill(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	for name, sig := range map[string]unix.Signal{"pinfold": unix.SIGTERM, "command": unix.SIGKILL} {
		master, slave, err := pty.Open()
		must(t, err)
		before, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
		must(t, err)
		cmd := l.command(t.Context(), t, launch{policy: workspaceOnly(), argv: []string{"sh", "-c", "stty raw -echo; echo up; exec sleep 7533"}, flags: []string{"--quiet"}})
		cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
		cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
		must(t, cmd.Start())
		s := &session{t: t, master: master}
		s.await("up")
		target := cmd.Process.Pid
		if name == "command" {
			eventually(t, "the command runs", func() bool { target = pidOf("sleep\x007533"); return target > 0 })
		}
		must(t, unix.Kill(target, sig))
		_ = cmd.Wait()
		after, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
		must(t, err)
		if *after != *before {
			t.Errorf("%s killed: the modes are %+v, were %+v", name, after, before)
		}
		master.Close()
		slave.Close()
	}
}

// pidOf finds a process by its command line, 0 for none.
func pidOf(cmdline string) (pid int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.HasPrefix(string(b), cmdline) {
			_, _ = fmt.Sscanf(f, "/proc/%d/cmdline", &pid)
		}
	}
	return pid
}
