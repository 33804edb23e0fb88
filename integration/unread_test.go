//go:build linux

package integration_test

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// TestUnread: a reader that reads nothing holds up neither a timeout nor a
// signal, wherever the supervisor carries the output.
func TestUnread(t *testing.T) {
	t.Parallel()
	for name, pair := range map[string]func(*testing.T) (inside *os.File, policy string){
		"a pipe": func(t *testing.T) (*os.File, string) {
			r, w, err := os.Pipe()
			must(t, err)
			t.Cleanup(func() { r.Close() })
			return w, `{"write": ["{workspace}"], "limits": {"idle_timeout": "1m"}}`
		},
		"a terminal": func(t *testing.T) (*os.File, string) {
			master, slave, err := pty.Open()
			must(t, err)
			t.Cleanup(func() { master.Close() })
			return slave, `{"write": ["{workspace}"]}`
		},
	} {
		for end, argv := range map[string][]string{
			"a timeout": {"--timeout", "1s", "--grace", "100ms", "--", "yes"},
			"a signal":  {"--", "sh", "-c", "touch began; seq 1 100000; exit 3"},
		} {
			t.Run(name+" and "+end, func(t *testing.T) {
				t.Parallel()
				l := newLab(t)
				f, policy := pair(t)
				write(t, l.root+"/unread.json", policy, 0o644)
				cmd := exec.Command(built.pinfold, append([]string{"wrap", "--state", l.state, "--policy", l.root + "/unread.json"}, argv...)...)
				cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = l.ws, l.env(), f, f
				if name == "a terminal" {
					cmd.Stdin, cmd.SysProcAttr = f, &syscall.SysProcAttr{Setsid: true, Setctty: true}
				}
				must(t, cmd.Start())
				must(t, f.Close())
				over := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
				defer over.Stop()
				if end == "a signal" {
					eventually(t, "the command begins", func() bool { _, err := os.Stat(l.ws + "/began"); return err == nil })
					must(t, cmd.Process.Signal(syscall.SIGTERM))
				}
				var ended *exec.ExitError
				if err := cmd.Wait(); !errors.As(err, &ended) || ended.ExitCode() != 124 && ended.ExitCode() != 143 && ended.ExitCode() != 3 {
					t.Errorf("ended with %v", err)
				}
			})
		}
	}
}
