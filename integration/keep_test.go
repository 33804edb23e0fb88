//go:build linux

package integration_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"pinfold/event"
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
// when it is stopped. The run goes on without, or is ended. For a moment it may be
// used, which the event bounds: whoever has got hold waits a second, and what is
// written after the event, or by one who had it for longer than that says, is
// one too many.
func TestKeptHold(t *testing.T) {
	t.Parallel()
	needsSandbox(t)
	for name, c := range keeps() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			fill := l.place(nil)
			r := l.start(t, launch{
				policy: workspaceOnly(), flags: []string{"--events", l.root + "/events"},
				argv: []string{built.attack, "keep", fill.Replace(c.path), l.run + "/ready", c.how, c.ms},
			})
			r.await(t, l.run+"/ready")
			l.sh(t, fill.Replace(c.change))
			<-r.done
			out := r.stdout.String() + r.stderr.String()
			code := r.ProcessState.ExitCode()
			if code != 123 && code != exitHeld && code != 0 {
				t.Errorf("exit %d: %s", code, out)
			}
			if left := planted(t, l); left != "" {
				withinBounds(t, keptFor(t, out), boundaryEvents(t, l.root+"/events"), out)
			} else if code == 0 {
				t.Errorf("it wrote, and that is gone: %s", out)
			}
		})
	}
}

// kept is what the attempt says before it writes.
type kept struct {
	had time.Duration
	at  time.Time
}

func keptFor(t *testing.T, out string) kept {
	t.Helper()
	for line := range strings.Lines(out) {
		var had, at int64
		if n, _ := fmt.Sscanf(line, "kept %d %d", &had, &at); n == 2 {
			return kept{time.Duration(had), time.Unix(0, at)}
		}
	}
	t.Fatalf("it planted something and didn't say when: %s", out)
	return kept{}
}

// withinBounds fails unless what was written was so before the event that says
// that the thing is out of reach again, or that the run was ended.
func withinBounds(t *testing.T, k kept, events []event.Event, out string) {
	t.Helper()
	i := slices.IndexFunc(events, func(e event.Event) bool { return e.Reason != "late_mount_removed" })
	if i < 0 {
		t.Errorf("nobody noticed: %s", out)
		return
	}
	switch e := events[i]; {
	case k.at.After(e.Time):
		t.Errorf("written %v after %s: %s", k.at.Sub(e.Time), e.Reason, out)
	case e.Reason == "cover_restored" && k.had > e.Duration:
		t.Errorf("kept for %v, and the event says %v: %s", k.had, e.Duration, out)
	default:
		t.Logf("kept for %v, which %s is about", k.had, e.Reason)
	}
}

// boundaryEvents are those of a file of events.
func boundaryEvents(t *testing.T, file string) []event.Event {
	t.Helper()
	var list []event.Event
	for line := range strings.Lines(read(t, file)) {
		var e event.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if e.Kind == event.Boundary {
			list = append(list, e)
		}
	}
	return list
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
