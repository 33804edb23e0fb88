//go:build linux

package integration_test

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// guardedGit runs pinfold git in a directory of the lab.
func (l *lab) guardedGit(t *testing.T, dir string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, built.pinfold, append([]string{"git"}, args...)...)
	cmd.Dir, cmd.Env = dir, append(l.env(), "PINFOLD_STATE="+l.state)
	return runCommand(t, cmd)
}

// TestGitWaits: while a command may write a repository, what git would read
// there isn't what was looked at, so pinfold git isn't run on it. Plain git
// executes what the command writes.
func TestGitWaits(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	elsewhere := filepath.Join(l.root, "elsewhere")
	mkdir(t, elsewhere)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := l.command(ctx, t, launch{policy: workspaceOnly(), argv: []string{"sh", "-c", `
		git init -q made && cd made && echo a >a && echo "* filter=ev" >.gitattributes && git add -A &&
		git config filter.ev.clean "touch ran; cat" && touch a && echo made && read end`}})
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "made\n" {
		t.Fatalf("the command says %q: %v", line, err)
	}
	made := l.ws + "/made"
	for _, dir := range []string{l.ws, made} {
		res := l.guardedGit(t, dir, "status")
		if res.code != 1 || !strings.Contains(res.stderr, "git_busy") || !strings.Contains(res.stderr, "pinfold wait --record "+l.state) {
			t.Errorf("%s: %v", dir, res)
		}
	}
	l.elsewhereGit(t, elsewhere)
	must(t, in.Close())
	if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 1 {
		t.Fatal(err)
	}
	if res := l.guardedGit(t, made, "status"); res.code != 0 || exists(made+"/ran") {
		t.Errorf("afterwards: %v", res)
	}
	must(t, os.WriteFile(made+"/a", []byte("b\n"), 0o600))
	control := exec.Command("git", "-C", made, "status")
	control.Env = l.env()
	if err := control.Run(); err != nil || !exists(made+"/ran") {
		t.Errorf("plain git doesn't run the filter either: %v", err)
	}
}

// gitLayouts are repositories as people keep them: what the host sets up, what
// is done inside, and what that must print. Each ends with an attempt to have
// the host's git obey the command.
func gitLayouts() map[string]struct{ prepare, inside, want string } {
	const plant = `; for f in $(git rev-parse --git-path config) $(git rev-parse --git-path hooks)/post-commit; do (echo x >>$f) 2>&- && echo planted $f; done; echo end`
	return map[string]struct{ prepare, inside, want string }{
		"a sparse checkout": {
			`mkdir in out; echo 1 >in/f; echo 1 >out/f; git add -A; git commit -qm parts; git sparse-checkout set in`,
			`git status --porcelain; echo 2 >in/f; git add -A; git commit -qm two; echo 3 >in/f; git stash -q; git stash pop -q; git checkout -q in/f; ls; git sparse-checkout list; git ls-files out; git sparse-checkout set out 2>/dev/null || echo refused` + plant,
			"README.md\nin\nin\nout/f\nrefused\nend\n",
		},
		"a linked worktree of a repository beside, by a relative path": {
			`mv {ws} {root}/main; cd {root}/main; git worktree add -q {ws} -b wt; echo "gitdir: ../main/.git/worktrees/ws" >{ws}/.git`,
			`git status --porcelain; echo 2 >f; git add -A; git commit -qm two; echo 3 >f; git stash -q; git stash pop -q 2>/dev/null; git status --porcelain; git checkout -q f; git fetch -q . HEAD:refs/heads/fetched; git push -q . HEAD:refs/heads/pushed; git log --format=%s; git worktree list | wc -l; git for-each-ref refs/heads | wc -l` + plant,
			" M f\ntwo\nfirst\n2\n4\nend\n",
		},
		"a repository with a bare one beside": {
			`git clone -q --bare --no-hardlinks . {ws}/b.git; git remote add origin b.git; git fetch -q; echo b.git >.git/info/exclude; git branch -q -u origin/main`,
			`echo 2 >f; git add -A; git commit -qm two; git push -q 2>&1; git fetch 2>&1; git pull -q 2>&1; cd b.git; git log --format=%s; git gc -q; git tag v1; git worktree list | wc -l` + plant,
			"two\nfirst\n1\nend\n",
		},
		"hooks elsewhere": {
			`mkdir tools; printf '#!/bin/sh\necho hook\n' >tools/pre-commit; chmod +x tools/pre-commit; git config core.hooksPath tools`,
			`git add -A; git commit -qm two 2>&1; git status --porcelain; echo x 2>&- >tools/pre-push || echo held; mv tools t 2>&- && mv t tools || echo held` + plant,
			"hook\nheld\nheld\nend\n",
		},
	}
}

// TestGitLayouts: git works inside on what the host has set up, and neither
// configuration nor hooks can be written, which they can without a sandbox.
func TestGitLayouts(t *testing.T) {
	t.Parallel()
	for name, c := range gitLayouts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, control := newLab(t), newLab(t)
			for _, l := range []*lab{l, control} {
				l.sh(t, l.place(nil).Replace("cd {ws}; "+c.prepare))
			}
			res := l.wrap(t, launch{policy: workspaceOnly(), argv: []string{"sh", "-c", l.place(nil).Replace(c.inside)}})
			if res.code != 0 || res.stdout != c.want {
				t.Errorf("wanted %q: %v", c.want, res)
			}
			outside := control.direct(t, launch{argv: []string{"sh", "-c", control.place(nil).Replace(c.inside)}})
			if strings.Count(outside.stdout, "planted") != 2 {
				t.Errorf("outside nothing is planted either, so this shows nothing: %v", outside)
			}
		})
	}
}

// elsewhereGit: a repository that the launch can't write is nobody's business.
func (l *lab) elsewhereGit(t *testing.T, dir string) {
	t.Helper()
	for _, args := range [][]string{{"init", "-q"}, {"status"}} {
		if res := l.guardedGit(t, dir, args...); res.code != 0 {
			t.Errorf("git %v elsewhere: %v", args, res)
		}
	}
}

// TestGitWaitsForOtherRecords: wherever a launch's record lies, pinfold git
// hears of it from the state directory, until it has ended.
func TestGitWaitsForOtherRecords(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	record := l.root + "/rec"
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := l.command(ctx, t, launch{policy: workspaceOnly(), flags: []string{"--record", record}, argv: []string{"sh", "-c", "echo on && read end"}})
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "on\n" {
		t.Fatalf("the command says %q: %v", line, err)
	}
	if res := l.guardedGit(t, l.ws, "status"); res.code != 1 || !strings.Contains(res.stderr, "git_busy") || !strings.Contains(res.stderr, record) {
		t.Errorf("while it runs: %v", res)
	}
	must(t, in.Close())
	if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 1 {
		t.Fatal(err)
	}
	if res := l.guardedGit(t, l.ws, "status"); res.code != 0 {
		t.Errorf("afterwards: %v", res)
	}
	if left, err := os.ReadDir(l.state + "/elsewhere"); err != nil || len(left) > 0 {
		t.Errorf("notes are left: %v, %v", left, err)
	}
}
