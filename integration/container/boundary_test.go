//go:build linux

package container_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// repository makes the workspace one, as the lab's user has it.
func (p *pen) repository(t *testing.T) {
	t.Helper()
	for _, args := range [][]string{{"init", "-q"}, {"config", "user.name", "lab"}} {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = p.workspace
		cmd.Env = append(os.Environ(), "HOME="+p.home, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "chown", "-R", itoa(p.l.uid)+":"+itoa(p.l.gid), p.workspace).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestGuardedNamesAppear: what appears under a guarded name that wasn't there
// is taken away, while the command runs and at its end.
func TestGuardedNamesAppear(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		p.repository(t)
		r := p.start(nil, `mkdir .vscode; echo evil >.vscode/tasks.json; echo evil >.envrc; n=0; while [ -e .envrc ] || [ -e .vscode ]; do sleep 0.05; n=$((n+1)); [ $n -gt 200 ] && exit 1; done; echo gone; echo again >.envrc; exit 3`)
		if code := r.wait(); code != 3 || !strings.Contains(r.stdout.String(), "gone") {
			t.Errorf("exit %d, %q %s", code, r.stdout.String(), r.stderr.String())
		}
		for _, name := range []string{".vscode", ".envrc"} {
			if _, err := os.Lstat(filepath.Join(p.workspace, name)); err == nil {
				t.Errorf("%s is there", name)
			}
		}
	})
}

// TestHostTakesACover: a cover that the host takes away by replacing what
// stands under it can't be put back, and ends the run.
func TestHostTakesACover(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		for name, change := range map[string]func(config string) error{
			"replaced": func(config string) error {
				text, err := os.ReadFile(config)
				if err == nil {
					err = os.WriteFile(config+".new", text, 0o644)
				}
				if err == nil {
					err = os.Rename(config+".new", config)
				}
				return err
			},
			"moved away": func(config string) error { return os.Rename(config, config+".old") },
			"removed":    os.Remove,
		} {
			if err := os.RemoveAll(filepath.Join(p.workspace, ".git")); err != nil {
				t.Fatal(err)
			}
			p.repository(t)
			log := filepath.Join(p.state, "events-"+strings.ReplaceAll(name, " ", "-"))
			r := p.start(nil, `while :; do echo "[alias]" >>.git/config 2>/dev/null && exit 0; sleep 0.01; done`, "--events", log)
			if err := change(filepath.Join(p.workspace, ".git/config")); err != nil {
				t.Fatal(err)
			}
			if code := r.wait(); code != 123 || r.stored().Exit == nil || r.stored().Exit.Reason != "boundary_lost" {
				t.Errorf("%s: exit %d, %+v, %s", name, code, r.stored().Exit, r.stderr.String())
			}
			if events, err := os.ReadFile(log); err != nil || !strings.Contains(string(events), `"boundary_lost"`) || !strings.Contains(string(events), ".git/config") {
				t.Errorf("%s: events %s, %v", name, events, err)
			}
		}
	})
}

// TestResumeFindsALoss: what the host changed while nobody supervised ends the
// run as soon as somebody takes over, as it would have at once.
func TestResumeFindsALoss(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		secret, socket := filepath.Join(p.workspace, "secret"), filepath.Join(p.workspace, "s")
		for _, c := range []struct {
			name, reason, at string
			change           func()
		}{
			{"a mount point that was removed", "boundary_lost", secret, func() {
				if err := os.Remove(secret); err != nil {
					t.Fatal(err)
				}
				p.until("the command makes its own", func() bool { return p.there("secret/evil") })
			}},
			{"a socket in the grant", "socket_in_grant", socket, func() {
				s, err := net.Listen("unix", socket)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { s.Close() })
				p.give(socket)
			}},
		} {
			r := p.start(missingNames, `while :; do mkdir -p secret/evil 2>/dev/null; sleep 0.05; done`)
			r.killSupervisor()
			c.change()
			log := filepath.Join(p.state, "events-"+c.reason)
			got := p.resumeTo(log, r.record)
			if e := r.stored().Exit; got.code != 123 || e == nil || e.Code != 123 || e.Reason != "boundary_lost" || !strings.Contains(got.stderr, "the boundary was lost") {
				t.Errorf("%s: %v\nrecorded %+v", c.name, got, e)
			}
			if events, err := os.ReadFile(log); err != nil || !strings.Contains(string(events), c.reason) || !strings.Contains(string(events), c.at) {
				t.Errorf("%s: events %s, %v", c.name, events, err)
			}
			if left := p.containers(t.Context()); len(left) > 0 {
				t.Errorf("%s: left %v", c.name, left)
			}
			if err := os.RemoveAll(secret); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// resumeTo takes a launch over, with its events in a file.
func (p *pen) resumeTo(events, record string) answer {
	p.t.Helper()
	f, err := os.Create(events)
	if err != nil {
		p.t.Fatal(err)
	}
	defer f.Close()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	cmd := p.command(ctx, "resume", "--record", record, "--events", "fd:3")
	cmd.ExtraFiles = []*os.File{f}
	return p.ended(cmd)
}
