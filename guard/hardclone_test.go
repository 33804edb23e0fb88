package guard_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestLocalCloneCure: what the hint for a local clone says to type helps,
// whatever git keeps beside the objects there.
func TestLocalCloneCure(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("there is no git")
	}
	tr := newTree(t)
	sh := func(script string) {
		t.Helper()
		cmd := exec.Command("sh", "-ec", script)
		cmd.Dir = tr.root
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", script, err, out)
		}
	}
	commit := func(how string) string {
		return "git -C src commit -q --allow-empty -m x; git -C src commit-graph write --reachable " + how + ";"
	}
	for name, how := range map[string]string{"one": "", "chain": "--split=no-merge"} {
		sh("rm -rf src; git init -q src;" + commit(how) + commit(how) + "git -C src repack -dq; git -C src multi-pack-index write; git clone -q src ws/" + name)
		l := launch{write: []string{"ws/" + name}}
		_, fix, _ := strings.Cut(l.refused(tr, "hard_link").Fix, "that exists: ")
		sh("cd ws/" + name + "; " + fix)
		if _, err := l.run(tr); err != nil { // what is left of a source that has a multi-pack-index
			rm, _, _ := strings.Cut(l.refused(tr, "hard_link").Fix, ": ")
			sh(rm)
		}
		l.grant(tr)
	}
}
