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

// elsewhereGit: a repository that the launch can't write is nobody's business.
func (l *lab) elsewhereGit(t *testing.T, dir string) {
	t.Helper()
	for _, args := range [][]string{{"init", "-q"}, {"status"}} {
		if res := l.guardedGit(t, dir, args...); res.code != 0 {
			t.Errorf("git %v elsewhere: %v", args, res)
		}
	}
}
