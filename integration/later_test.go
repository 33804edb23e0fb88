//go:build linux

package integration_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// later runs a command in the lab's workspace and answers what it left behind,
// by the result.
func (l *lab) later(t *testing.T, policy any, script string) (found []string, stderr string) {
	t.Helper()
	res := l.wrap(t, launch{policy: policy, flags: []string{"--result", l.root + "/result.json"}, argv: []string{"sh", "-ec", l.place(nil).Replace(script)}})
	if res.code != 0 {
		t.Fatalf("%v", res)
	}
	var r struct {
		Persistence []struct{ Path, Change, What string }
		Partial     bool `json:"persistence_partial"`
	}
	must(t, json.Unmarshal([]byte(read(t, l.root+"/result.json")), &r))
	for _, p := range r.Persistence {
		found = append(found, p.Change+" "+strings.TrimPrefix(p.Path, l.ws+"/")+": "+p.What)
	}
	slices.Sort(found)
	return found, res.stderr
}

const unguarded = `{"write": ["{workspace}"], "guard_workspace": false}`

// TestWhatIsRunLater: what a run leaves behind for the host is in its result,
// whatever way it came to where it is run.
func TestWhatIsRunLater(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy      any
		first, then string
		want        []string
	}{
		"moved directories": {
			policy: workspaceOnly(),
			first:  "cd {ws}; mkdir -p node_modules/x/gh/workflows node_modules/x/vs node_modules/x/cl/hooks sub; echo a >node_modules/x/gh/workflows/e.yml; echo a >node_modules/x/vs/tasks.json; echo a >node_modules/x/cl/hooks/x",
			then:   "cd {ws}; mv node_modules/x/gh .github; mv node_modules/x/vs sub/.vscode; mv node_modules/x/cl sub/.claude",
			want:   []string{"new .github/workflows/e.yml: CI", "new sub/.claude/hooks/x: agents", "new sub/.vscode/tasks.json: editor tasks"},
		},
		"linked directories": {
			policy: workspaceOnly(),
			first:  "mkdir -p {ws}/payload/workflows {ws}/s; echo a >{ws}/payload/tasks.json",
			then:   "cd {ws}/s; ln -s ../payload .vscode; ln -s ../payload .github; ln -s ../payload .husky",
			want:   []string{"new s/.github: CI", "new s/.husky: git hooks", "new s/.vscode: editor tasks"},
		},
		"nothing": {policy: workspaceOnly(), first: "mkdir -p {ws}/a/.github/workflows; echo a >{ws}/a/.github/workflows/x.yml", then: "echo x >{ws}/a/b; echo x >{ws}/c; cd {ws}; git add -A; git commit -qm x"},
		"what is no longer guarded": {
			policy: unguarded,
			first:  "true",
			then:   "cd {ws}; mkdir -p .config/fish .claude/plugins; echo a >.config/fish/config.fish; echo a >.claude/plugins/x; echo a >.bash_aliases; echo a >.git/hooks/pre-push",
			want:   []string{"new .bash_aliases: shell start-up", "new .claude/plugins/x: agents", "new .config/fish/config.fish: shell start-up", "new .git/hooks/pre-push: git hooks"},
		},
		"a rebase with a command": {
			policy: workspaceOnly(),
			first:  "cd {ws}; echo b >b; git add b; git commit -qm two; echo c >c; git add c; git commit -qm three",
			then:   `cd {ws}; GIT_SEQUENCE_EDITOR='f() { echo break >$1; }; f' git rebase -q -i HEAD~1 || :; echo 'exec /evil' >.git/rebase-merge/git-rebase-todo`,
			want:   []string{"new .git/rebase-merge/git-rebase-todo: git rebase"},
		},
		"a git directory in another": {
			policy: `{"write": ["{workspace}"], "guard_workspace": {"except": [".git/modules"]}}`,
			first:  "true",
			then:   "git init -q --bare {ws}/.git/modules/lib",
			want:   []string{"new .git/modules/lib: git directory"},
		},
		"a worktree": {
			policy: workspaceOnly(),
			first:  "true",
			then:   "cd {ws}; git worktree add -q --detach tree",
			want:   []string{"new .git/worktrees/tree: git directory", "new tree/.git: nested repository"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			l.later(t, c.policy, c.first)
			got, stderr := l.later(t, c.policy, c.then)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s\n%s", diff, stderr)
			}
			if said := strings.Contains(stderr, "host tools will run what this changed"); said != (len(c.want) > 0) {
				t.Errorf("said: %v: %s", said, stderr)
			}
		})
	}
}

// TestMovedCredentials: what the caller's variables name is as hidden as what
// stands in its usual place, and so is what the links in ~/.ssh lead to.
func TestMovedCredentials(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	vars := map[string]string{
		"KUBECONFIG": "none:{}/kube", "GNUPGHOME": "{}/gnupg", "AWS_CONFIG_FILE": "{}/aws", "CARGO_HOME": "{}/cargo", "NETRC": "{}/netrc",
		"NPM_CONFIG_USERCONFIG": "{}/npmrc", "DOCKER_CONFIG": "{}/docker", "GH_CONFIG_DIR": "{}/gh", "HISTFILE": "{}/hist", "PGPASSFILE": "{}/pg",
	}
	files := []string{"kube", "gnupg/k", "aws", "cargo/credentials.toml", "netrc", "npmrc", "docker/config.json", "gh/hosts.yml", "hist", "pg", "id"}
	for _, f := range files {
		write(t, l.public+"/"+f, secret+" "+f+"\n", 0o600)
	}
	write(t, l.public+"/cargo/config.toml", "shown\n", 0o644)
	must(t, os.Symlink(l.public+"/id", l.home+"/.ssh/id_link"))
	var env []string
	for name, value := range vars {
		env = append(env, name+"="+strings.ReplaceAll(value, "{}", l.public))
	}
	script := "cd " + l.public + "; cat " + strings.Join(files, " ") + " cargo/config.toml 2>/dev/null; :"
	res := l.wrap(t, launch{policy: workspaceOnly(), env: env, argv: []string{"sh", "-c", script}})
	if strings.Contains(res.stdout, secret) || !strings.Contains(res.stdout, "shown") {
		t.Errorf("%v", res)
	}
	// Control: one is granted by name.
	res = l.wrap(t, launch{policy: `{"write": ["{workspace}"], "read": {"allow": ["` + l.public + `/kube"]}}`, env: env, argv: []string{"sh", "-c", script}})
	if strings.Count(res.stdout, secret) != 1 || !strings.Contains(res.stdout, secret+" kube") {
		t.Errorf("control: %v", res)
	}
}
