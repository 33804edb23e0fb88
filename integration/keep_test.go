//go:build linux

package integration_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// keeps are what the host replaces while a command does nothing but wait for it,
// to have hold of the new thing when its cover is back.
func keeps() map[string]struct{ path, how, ms, change string } {
	const (
		file = "git -C {ws} config a.b c"
		dir  = "mv {ws}/.git/hooks {ws}/old; sleep 0.1; mkdir {ws}/.git/hooks"
	)
	return map[string]struct{ path, how, ms, change string }{
		"a file by a path descriptor":          {"{ws}/.git/config", "path", "0", file},
		"a file to read":                       {"{ws}/.git/config", "read", "0", file},
		"a file, woken by timers":              {"{ws}/.git/config", "read", "3", file},
		"a directory":                          {"{ws}/.git/hooks", "read", "0", dir},
		"a directory, woken by timers":         {"{ws}/.git/hooks", "read", "5", dir},
		"a directory, woken by timers quickly": {"{ws}/.git/hooks", "path", "1", dir},
	}
}

// TestKeptHold: nobody inside goes on having what the host has put in the place
// of a covered file or directory, by whatever descriptor, though it wakes itself
// when it is stopped. The run goes on without, or is ended.
func TestKeptHold(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	for name, c := range keeps() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			fill := l.place(nil)
			r := l.start(t, launch{policy: workspaceOnly(), argv: []string{built.attack, "keep", fill.Replace(c.path), l.run + "/ready", c.how, c.ms}})
			r.await(t, l.run+"/ready")
			l.sh(t, fill.Replace(c.change))
			<-r.done
			if code := r.ProcessState.ExitCode(); code != 123 && code != exitHeld {
				t.Errorf("exit %d: %s%s", code, r.stdout.String(), r.stderr.String())
			}
			if left := planted(t, l); left != "" {
				t.Errorf("planted: %s\n%s%s", left, r.stdout.String(), r.stderr.String())
			}
		})
	}
}

// TestKeptHoldControl: without a boundary each of them writes.
func TestKeptHoldControl(t *testing.T) {
	t.Parallel()
	for name, c := range keeps() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			fill := l.place(nil)
			cmd := exec.Command(built.attack, "keep", fill.Replace(c.path), l.run+"/ready", c.how, c.ms)
			var out strings.Builder
			cmd.Stdout, cmd.Stderr = &out, &out
			must(t, cmd.Start())
			eventually(t, "ready", func() bool { _, err := os.Stat(l.run + "/ready"); return err == nil })
			l.sh(t, fill.Replace(c.change))
			if err := cmd.Wait(); err != nil || planted(t, l) == "" {
				t.Errorf("%v, planted nothing: the attempt proves nothing: %s", err, out.String())
			}
		})
	}
}

// planted is what the command left for the host's git.
func planted(t *testing.T, l *lab) string {
	t.Helper()
	out, err := exec.Command("grep", "-rs", "planted", l.ws+"/.git/config", l.ws+"/.git/hooks").Output()
	if err != nil && len(out) > 0 {
		t.Fatal(err)
	}
	return string(out)
}
