//go:build linux

package container_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// TestTerminal: a command that is started at a terminal has one of its own
// inside, with the outer one's size, its keys and job control, and no
// descriptor of that.
func TestTerminal(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		args := append([]string{"wrap", "--quiet", "--policy", p.policy(nil), "--"}, "/bin/sh", "-i")
		cmd := p.command(ctx, args...)
		cmd.Env = append(cmd.Environ(), "TERM=vt220")
		f, err := pty.StartWithAttrs(cmd, &pty.Winsize{Rows: 33, Cols: 111}, withTerminal(cmd.SysProcAttr))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		before, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
		if err != nil {
			t.Fatal(err)
		}
		out := &buffer{}
		read := make(chan struct{})
		go func() {
			defer close(read)
			b := make([]byte, 4096)
			for {
				n, err := f.Read(b)
				_, _ = out.Write(b[:n])
				if err != nil {
					return
				}
			}
		}()
		say := func(line, want string) {
			t.Helper()
			seen := len(out.String())
			if _, err := f.WriteString(line); err != nil {
				t.Fatal(err)
			}
			p.until(want+" is answered", func() bool { return strings.Contains(out.String()[seen:], want) })
		}
		p.until("there is a prompt", func() bool { return strings.Contains(out.String(), "# ") || strings.Contains(out.String(), "$ ") })
		say("echo one-$((20+1))\n", "one-21")
		say("echo a-$TERM\n", "a-vt220")
		say("readlink /proc/self/fd/0\n", "/dev/pts/0")
		say("ls /proc/self/fd | wc -l; echo counted-$((1+1))\n", "counted-2")
		say("sh -c 'echo begun-$((1+1)); sleep 1000'\n", "begun-2")
		say("\x03", l.workspacePrompt())
		say("echo after-$((3+4))\n", "after-7")
		if _, err := f.WriteString("exit 5\n"); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 5 {
			t.Errorf("%v\n%q", err, out.String())
		}
		after, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
		if err != nil || *after != *before {
			t.Errorf("the terminal was left with other modes: %+v, %v", after, err)
		}
		f.Close()
		<-read
	})
}

// workspacePrompt ends the shell's prompt.
func (l *lab) workspacePrompt() string {
	if l.runsAs() == 0 {
		return "# "
	}
	return "$ "
}

// TestSomeStreamsAreTerminals: what isn't one is handed on as it is.
func TestSomeStreamsAreTerminals(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		master, slave, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer master.Close()
		defer slave.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		cmd := p.command(ctx, p.args(nil, `cat; [ -t 0 ] && echo in; [ -t 1 ] && echo out; [ -t 2 ] && echo err >&2; exit 0`)...)
		var out buffer
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("typed\n"), &out, slave
		if err := cmd.Run(); err != nil || out.String() != "typed\n" {
			t.Errorf("%v, %q", err, out.String())
		}
		b := make([]byte, 100)
		n, err := master.Read(b)
		if err != nil || !strings.Contains(string(b[:n]), "err") {
			t.Errorf("%q, %v", b[:n], err)
		}
	})
}
