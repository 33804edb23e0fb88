//go:build linux

package container_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
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
