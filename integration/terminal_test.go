//go:build linux

package integration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// session is a launch under a terminal of its own, as a person has one.
type session struct {
	t      *testing.T
	master *os.File
	seen   strings.Builder
	wait   func() error
	state  func() *os.ProcessState
}

// terminal starts a launch with a pseudo-terminal as its controlling one.
func (l *lab) terminal(t *testing.T, c launch) *session {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	cmd := l.command(ctx, t, c)
	master, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 31, Cols: 97})
	must(t, err)
	t.Cleanup(func() { master.Close() })
	return &session{t: t, master: master, wait: cmd.Wait, state: func() *os.ProcessState { return cmd.ProcessState }}
}

// await reads until the terminal shows text.
func (s *session) await(text string) {
	s.t.Helper()
	buf := make([]byte, 4096)
	must(s.t, s.master.SetReadDeadline(time.Now().Add(30*time.Second)))
	for !strings.Contains(s.seen.String(), text) {
		n, err := s.master.Read(buf)
		s.seen.Write(buf[:n])
		if err != nil && !strings.Contains(s.seen.String(), text) {
			s.t.Fatalf("waited for %q (%v), seen:\n%s", text, err, s.seen.String())
		}
	}
}

func (s *session) send(text string) {
	s.t.Helper()
	s.seen.Reset()
	_, err := s.master.WriteString(text)
	must(s.t, err)
}

// end reads to the end and returns the exit code.
func (s *session) end() int {
	s.t.Helper()
	buf := make([]byte, 4096)
	must(s.t, s.master.SetReadDeadline(time.Now().Add(30*time.Second)))
	for {
		n, err := s.master.Read(buf)
		s.seen.Write(buf[:n])
		if errors.Is(err, syscall.EIO) || err != nil {
			break
		}
	}
	_ = s.wait()
	return s.state().ExitCode()
}

// TestInteractiveShell is a session of a person: job control, Ctrl-C once,
// the window's size, and the shell's own exit code.
func TestInteractiveShell(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := l.terminal(t, launch{policy: workspaceOnly(), argv: []string{"/bin/bash", "--norc", "-i"}, env: []string{"PS1=ready> "}, flags: []string{"--quiet"}})
	s.await("ready> ")
	s.send("echo $((6*7)); tty; stty size\n")
	s.await("42\r\n")
	s.await("/dev/pts/")
	s.await("31 97")
	// The shell reports nothing when a job is in front, so the job does.
	const job = "sh -c 'echo run\"\"ning; exec sleep 100'\n"
	s.send(job)
	s.await("running\r\n")
	s.send("\x03")
	s.await("ready> ")
	s.send("echo after $?\n")
	s.await("after 130")
	s.send(job)
	s.await("running\r\n")
	s.send("\x1a")
	s.await("Stopped")
	s.send("jobs; kill %1; fg; echo fg done\n")
	s.await("fg done\r\n")
	must(t, pty.Setsize(s.master, &pty.Winsize{Rows: 12, Cols: 34}))
	eventually(t, "the new size arrives", func() bool {
		s.send("stty size\n")
		s.await("ready> ")
		return strings.Contains(s.seen.String(), "12 34")
	})
	s.send("exit 5\n")
	if got := s.end(); got != 5 {
		t.Errorf("exit %d, want 5: %s", got, s.seen.String())
	}
}

// TestTerminalInjection: the command's terminal is its own, and pushing input
// into any is refused, whatever the upper half of the request says.
func TestTerminalInjection(t *testing.T) {
	t.Parallel()
	for _, request := range []string{"0x5412", "0x100005412", "0xffffffff00005412", "0x541c", "0x10000541c"} {
		t.Run(request, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			s := l.terminal(t, launch{policy: workspaceOnly(), argv: []string{built.attack, "ioctl", request}, flags: []string{"--quiet"}})
			if got := s.end(); got != exitHeld || !strings.Contains(s.seen.String(), "HELD EPERM") {
				t.Errorf("exit %d: %s", got, s.seen.String())
			}
		})
	}
}

// TestNoDescriptorOfTheOperatorsTerminal: no file in there is the terminal
// that pinfold was started from.
func TestNoDescriptorOfTheOperatorsTerminal(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	s := l.terminal(t, launch{policy: workspaceOnly(), argv: []string{"/bin/sh", "-c", "stat -L -c 'type %t id %d:%i' /dev/fd/0; for n in 0 1 2; do readlink /proc/$$/fd/$n; done; echo done"}, flags: []string{"--quiet"}})
	s.await("done")
	// The terminal's file system is the sandbox's own, not the host's.
	var outside unix.Stat_t
	must(t, unix.Stat("/dev/pts", &outside))
	if strings.Count(s.seen.String(), "/dev/pts/") != 3 || strings.Contains(s.seen.String(), fmt.Sprintf("id %d:", outside.Dev)) {
		t.Errorf("the terminal inside isn't one of its own: %s", s.seen.String())
	}
	if got := s.end(); got != 0 {
		t.Errorf("exit %d", got)
	}
}

// TestCtrlZReturnsToTheOuterShell stops the whole launch, and goes on.
func TestCtrlZReturnsToTheOuterShell(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cmd := l.command(ctx, t, launch{argv: []string{"true"}})
	cmd.Path, cmd.Args = "/bin/bash", []string{"bash", "--norc", "-i"}
	cmd.Env = append(cmd.Env, "PS1=outer> ")
	master, err := pty.Start(cmd)
	must(t, err)
	defer master.Close()
	s := &session{t: t, master: master, wait: cmd.Wait, state: func() *os.ProcessState { return cmd.ProcessState }}
	s.await("outer> ")
	s.send("'" + built.pinfold + "' wrap --quiet --workspace '" + l.ws + "' --state '" + l.state + "' -- /bin/sh -c 'echo re''ady; exec cat'\n")
	s.await("ready\r\n")
	s.send("line one\n")
	s.await("line one\r\nline one\r\n")
	s.send("\x1a")
	s.await("Stopped")
	s.await("outer> ")
	s.send("echo back outside\n")
	s.await("back outside\r\n")
	s.send("fg\n")
	s.send("line two\n")
	s.await("line two\r\nline two\r\n")
	s.send("\x04")
	s.await("outer> ")
	s.send("exit 0\n")
	if got := s.end(); got != 0 {
		t.Errorf("exit %d: %s", got, s.seen.String())
	}
}
