//go:build linux

package integration_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// denyMissing denies names that aren't there, one of them beneath a directory
// that isn't there either.
func denyMissing() doc { return denies("{workspace}/secret.env", "{workspace}/deep/er/secret") }

// TestManyOnOneWorkspace: ten launches cover the same missing names. None takes
// another's cover away, one that is killed neither, and when the last has ended
// the host has nothing left of it.
func TestManyOnOneWorkspace(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	before := l.git(t, "status", "--porcelain", "--ignored")
	const n = 10
	var all []*running
	for i := range n {
		mkdir(t, l.root+"/run"+strconv.Itoa(i))
		run := l.root + "/run" + strconv.Itoa(i)
		script := "touch " + run + "/ready; until [ -e " + run + "/go ]; do sleep 0.02; done; cd " + l.ws + "; " +
			"for p in secret.env deep/er/secret; do ls $p 2>&- && echo listed; echo x 2>&- >$p/x && echo written; rmdir $p 2>&- && echo removed; done; mv deep d 2>&- && echo moved; echo held"
		all = append(all, l.start(t, launch{policy: denyMissing(), bare: true, flags: []string{
			"--workspace", l.ws, "--run-dir", run, "--state", l.state,
		}, argv: []string{"sh", "-c", script}}))
	}
	for i, r := range all {
		r.await(t, l.root+"/run"+strconv.Itoa(i)+"/ready")
	}
	l.git(t, "add", "-A") // on the host, meanwhile
	if got := l.git(t, "status", "--porcelain", "--ignored"); got != before {
		t.Errorf("git sees %q meanwhile", got)
	}
	must(t, all[0].Process.Kill())
	<-all[0].done
	for i, r := range all[1:] {
		if _, err := os.Lstat(l.ws + "/secret.env"); err != nil {
			t.Errorf("gone while %d need it", n-1-i)
		}
		write(t, l.root+"/run"+strconv.Itoa(i+1)+"/go", "", 0o644)
		<-r.done
		if r.stdout.String() != "held\n" {
			t.Errorf("launch %d: %s%s", i+1, r.stdout.String(), r.stderr.String())
		}
	}
	if res := l.wrap(t, launch{policy: workspaceOnly(), argv: []string{"true"}}); res.code != 0 { // clears what the killed one left
		t.Errorf("%v", res)
	}
	absent(l.ws+"/secret.env")(t, l)
	absent(l.ws+"/deep")(t, l)
	if got := l.git(t, "status", "--porcelain", "--ignored"); got != before {
		t.Errorf("git sees %q afterwards", got)
	}
}

// TestNothingOdd: everyday tools see nothing odd inside where names are watched
// or covered, and leave nothing of it behind.
func TestNothingOdd(t *testing.T) {
	t.Parallel()
	needsProgram(t, "npm")
	l := newLab(t)
	res := l.wrap(t, launch{policy: workspaceOnly(), argv: []string{"sh", "-ec", `git status --porcelain; git add -A; git commit -q --allow-empty -m x; ls -A | grep -v -x -e .git -e README.md || :
npm init -y >/dev/null; git add -A; git status --porcelain; git stash -q; git stash pop -q; git gc -q; git worktree add -q ../ws/wt; git -C wt status --porcelain; git fsck`}})
	if res.code != 0 || strings.TrimSpace(strings.ReplaceAll(res.stdout, "A  package.json", "")) != "" && !strings.HasPrefix(res.stdout, "A  package.json") {
		t.Errorf("%v", res)
	}
	if got := l.git(t, "status", "--porcelain"); got != "A  package.json\n?? wt/\n" {
		t.Errorf("on the host git sees %q", got)
	}
}

// TestNoRepositoryIsMade: where there was no .git there is none, neither
// meanwhile nor afterwards.
func TestNoRepositoryIsMade(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	sub, plain, many := l.ws+"/sub", l.root+"/plain", l.root+"/many"
	for _, dir := range []string{sub, plain, many + "/a", many + "/b"} {
		mkdir(t, dir)
	}
	for _, dir := range []string{sub, plain, many} {
		res := l.wrap(t, launch{policy: workspaceOnly(), bare: true, dir: dir, flags: []string{"--state", l.state}, argv: []string{
			"sh", "-c", "ls -A; find . -name '.git*'",
		}})
		if want := map[string]string{many: "a\nb\n"}[dir]; res.code != 0 || res.stdout != want {
			t.Errorf("%s: %v", dir, res)
		}
		if found, err := filepath.Glob(dir + "/.*"); err != nil || len(found) > 0 {
			t.Errorf("%s: left %v %v", dir, found, err)
		}
	}
}

// swapTime is how long directories are swapped under launches.
func swapTime(t *testing.T) time.Duration {
	t.Helper()
	if s := os.Getenv("PINFOLD_SWAP_TIME"); s != "" {
		d, err := time.ParseDuration(s)
		must(t, err)
		return d
	}
	return 8 * time.Second
}

// TestSwaps: one process swaps a directory and a link to a secret in a tight
// loop while launches grant it, or start in it. The wrong one is never seen
// inside.
func TestSwaps(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	good, other := l.root+"/swap", l.root+"/other"
	write(t, good+"/marker", "good\n", 0o644)
	write(t, l.root+"/target/marker", secret+"\n", 0o644)
	must(t, os.Symlink(l.root+"/target", other))
	// It exchanges the two until it is killed, with a rest now and then in which a
	// launch can succeed.
	swapper := exec.Command("sh", "-c", "while :; do for i in 1 2 3 4 5 6 7 8 9 10 11 12; do "+built.attack+" exchange "+good+" "+other+"; done; sleep 0.3; done")
	must(t, swapper.Start())
	defer func() { _ = swapper.Process.Kill(); _ = swapper.Wait() }()
	policy := doc{"write": []string{good}, "read": doc{"deny": []string{l.root + "/target"}}}
	var wg sync.WaitGroup
	var mu sync.Mutex
	ran, refused := 0, 0
	end := time.Now().Add(swapTime(t))
	for range 2 {
		wg.Go(func() {
			for time.Now().Before(end) {
				res := l.wrap(t, launch{
					policy: policy, bare: true, dir: l.root, flags: []string{"--workspace", good, "--state", l.state, "--chdir", good},
					argv: []string{"sh", "-c", "cat ./marker; cat " + good + "/marker; echo x 2>&- >" + good + "/made"},
				})
				mu.Lock()
				switch {
				case strings.Contains(res.stdout, secret):
					t.Errorf("the wrong target: %v", res)
				case strings.HasPrefix(res.stdout, "good\n"):
					ran++
				case res.code == 125 || res.code == 123:
					refused++
				default:
					t.Logf("%v", res)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("%d ran, %d were refused or ended", ran, refused)
	if _, err := os.Stat(l.root + "/target/made"); err == nil {
		t.Error("something was written to the wrong target")
	}
	if ran == 0 || refused == 0 {
		t.Errorf("%d ran and %d were refused: the swaps never met a launch, or always", ran, refused)
	}
}

// stopAtRecord holds launches of a state directory up that have no record yet:
// their guard has looked, and nothing has been made.
func (l *lab) stopAtRecord(t *testing.T) (release func()) {
	t.Helper()
	f, err := os.Open(l.state + "/records")
	must(t, err)
	must(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	return func() { must(t, f.Close()) }
}

// awaitsLock waits until a process waits for a lock.
func (r *running) awaitsLock(t *testing.T) {
	t.Helper()
	eventually(t, "launch waits for its record", func() bool {
		for line := range strings.Lines(read(t, "/proc/locks")) { // proc_locks(5): "->" waits
			if f := strings.Fields(line); len(f) > 5 && f[1] == "->" && f[5] == itoa(r.Process.Pid) {
				return true
			}
		}
		return false
	})
}

// TestStartWhileAnotherEnds: a launch whose guard has seen the mount point of
// another one starts, though that one ends before it has a lease of its own.
// The last one removes the mount point. It may be granted as well: who was
// granted it has it as long as it runs.
func TestStartWhileAnotherEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy doc
		script string
	}{
		"denied":  {denyMissing(), "test -e secret.env && ! ls secret.env && ! rmdir secret.env"},
		"granted": {doc{"write": []string{"{workspace}/secret.env"}}, "test -d secret.env && touch secret.env/x && rm secret.env/x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t)
			first := l.start(t, launch{policy: denyMissing(), argv: []string{"sh", "-c", "touch " + l.run + "/ready; until [ -e " + l.run + "/go ]; do sleep 0.02; done"}})
			first.await(t, l.run+"/ready")
			release := l.stopAtRecord(t)
			second := l.start(t, launch{policy: c.policy, bare: true, flags: []string{"--state", l.state}, argv: []string{"sh", "-c", c.script + " 2>&- && echo held"}})
			second.awaitsLock(t)
			write(t, l.run+"/go", "", 0o644)
			<-first.done
			release()
			<-second.done
			if code := second.ProcessState.ExitCode(); code != 0 || second.stdout.String() != "held\n" {
				t.Errorf("exit %d: %s%s", code, second.stdout.String(), second.stderr.String())
			}
			absent(l.ws+"/secret.env")(t, l)
			absent(l.ws+"/deep")(t, l)
		})
	}
}
