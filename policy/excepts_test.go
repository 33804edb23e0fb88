package policy_test

import (
	"strings"
	"testing"

	"pinfold/policy"
)

// TestIdleExcepts: what the tables know is useful, a default deny is sent to
// the list that lifts it.
func TestIdleExcepts(t *testing.T) {
	t.Parallel()
	for e, want := range map[string]string{
		".vscode": "", ".git/config": "", ".git": "", "sub/.envrc": "", ".claude": "", ".claude/settings.json": "", "hooks": "",
		".git/modules/x/config": "", "~/.bashrc": "", ".bashrc": "", "~/.claude/hooks": "", "~/.config/git": "", "~": "",
		"~/.npmrc": "name it in read.allow", ".npmrc": "name it in read.allow", "~/.ssh/config": "name it in read.allow",
		"~/.docker/run/docker.sock": "name it in sockets", "~/.copilot": "",
		"~/notes": "so it does nothing", "~/x/.envrc": "so it does nothing", "docs": "unless a repository lies there",
	} {
		p := &policy.Policy{GuardWorkspace: policy.GuardWorkspace{Except: []string{e}}}
		got := strings.Join(p.IdleExcepts(), "\n")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("except %q: %q, want %q", e, got, want)
		}
	}
}
