//go:build linux

package integration_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// inChaos says that the test runs in a process of its own, whose orphans are
// handed to it: whatever survives a round is its child then.
const inChaos = "PINFOLD_TEST_CHAOS"

// chaosRounds is how often something is killed: $PINFOLD_CHAOS, or few.
func chaosRounds() int {
	if n, err := strconv.Atoi(os.Getenv("PINFOLD_CHAOS")); err == nil {
		return n
	}
	return 20
}

// TestChaos starts a launch, kills one of its processes at a random moment,
// asks for adoption, stops and reaps, round after round. Never a process
// outside, never an orphan, never a file left, never a wrong exit code.
func TestChaos(t *testing.T) {
	needsSandbox(t)
	if os.Getenv(inChaos) != "" {
		chaos(t)
		return
	}
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestChaos$", "-test.v")
	cmd.Env = append(os.Environ(), inChaos+"=1", "PINFOLD_BIN="+built.pinfold, "PINFOLD_ATTACK="+built.attack)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// victims are who may be killed. The daemon is the wrapper that pinfold's
// caller left behind.
var victims = []string{"nobody", "daemon", "supervisor", "bwrap", "init", "stub", "command"}

func chaos(t *testing.T) {
	must(t, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
	l := newLab(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	c := &chaosRun{
		lab: l, record: l.root + "/record", random: random, count: map[string]int{},
		// The missing name must not be makeable: it is covered, and the mount
		// point shows on the host as long as the launch lives.
		policy: l.policyFile(t, doc{"write": []string{"{workspace}"}, "read": doc{"deny": []string{"{workspace}/never"}}}),
	}
	c.before = listing(t, l.ws)
	for i := range chaosRounds() {
		c.round(t, victims[i%len(victims)])
		if t.Failed() {
			t.Fatalf("in round %d", i)
		}
	}
	t.Logf("%d rounds: %v", chaosRounds(), c.count)
}

type chaosRun struct {
	*lab
	record, policy string
	random         *rand.Rand
	before         []string
	count          map[string]int // outcomes
}

// round is one launch with one death.
func (c *chaosRun) round(t *testing.T, victim string) {
	code := filepath.Join(c.root, "code")
	wrapper := exec.Command("/bin/sh", "-c", `"$@"; echo $? > `+code, "wrapper", built.pinfold, "wrap", "--quiet",
		"--workspace", c.ws, "--state", c.state, "--policy", c.policy, "--record", c.record, "--",
		"/bin/sh", "-c", "sleep 30 & setsid sleep 30 & sleep 0.15; exit 7")
	wrapper.Dir, wrapper.Env = c.ws, c.env()
	must(t, wrapper.Start())
	time.Sleep(time.Duration(c.random.IntN(160)) * time.Millisecond) // the moment is what is tried
	killed := c.kill(victim, wrapper.Process.Pid)
	adopted := c.pinfold(t, "adopt", "--record", c.record, "--parent", itoa(wrapper.Process.Pid))
	if c.random.IntN(2) == 0 {
		c.pinfold(t, "stop", "--record", c.record, "--grace", "20ms")
	}
	if victim != "daemon" || !killed {
		_ = wrapper.Wait()
	} else {
		_ = wrapper.Wait()
		c.pinfold(t, "stop", "--record", c.record, "--grace", "20ms")
	}
	// Before the root file is there nothing runs without its supervisor.
	if killed && adopted == 0 && (victim == "supervisor" || victim == "daemon") && !c.exited() && exists(c.record+"/root") {
		t.Errorf("%s: adopted though it was killed", victim)
	}
	c.check(t, victim, killed, code)
}

// kill kills one process of the launch, if it is there by now.
func (c *chaosRun) kill(victim string, wrapper int) bool {
	pid := wrapper
	for _, step := range []string{"daemon", "supervisor", "bwrap", "init", "stub"} {
		if victim == step || victim == "command" && step == "stub" {
			return victim != "nobody" && pid > 0 && unix.Kill(pid, unix.SIGKILL) == nil
		}
		if pid = firstChild(pid); pid <= 0 {
			return false
		}
	}
	return false
}

func firstChild(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	if fields := strings.Fields(string(b)); err == nil && len(fields) > 0 {
		n, _ := strconv.Atoi(fields[0])
		return n
	}
	// pinfold's child belongs to the thread that started it.
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		b, _ := os.ReadFile(task)
		if fields := strings.Fields(string(b)); len(fields) > 0 {
			n, _ := strconv.Atoi(fields[0])
			return n
		}
	}
	return 0
}

// pinfold runs another command and answers its exit code.
func (c *chaosRun) pinfold(t *testing.T, args ...string) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), built.pinfold, append(args, "--state", c.state)...)
	cmd.Env = c.env()
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	if args[0] == "reap" && err != nil {
		t.Errorf("reap: %v\n%s", err, out)
	}
	return cmd.ProcessState.ExitCode()
}

// check is what must hold after every round.
func (c *chaosRun) check(t *testing.T, victim string, killed bool, code string) {
	c.orphans(t, victim)
	c.exitCode(t, victim, killed, code)
	c.pinfold(t, "reap", "--record", c.record)
	if diff := cmp.Diff(c.before, listing(t, c.ws)); diff != "" {
		t.Errorf("%s: the workspace changed (-before +after):\n%s", victim, diff)
	}
	for _, pattern := range []string{c.state + "/run/*", c.state + "/workspace/*", c.state + "/covers/*.*", c.record + "/.*"} {
		if left, _ := filepath.Glob(pattern); len(left) > 0 {
			t.Errorf("%s: left behind: %q", victim, left)
		}
	}
	must(t, os.RemoveAll(c.record))
	_ = os.Remove(code)
}

// orphans waits for everything to be gone: whatever had no parent any more is
// a child of this process. Where bubblewrap dies with its supervisor before it
// has let its child go, that is left to a reaping.
func (c *chaosRun) orphans(t *testing.T, victim string) {
	reap := time.Now().Add(time.Second)
	deadline := reap.Add(10 * time.Second)
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if errors.Is(err, syscall.ECHILD) {
			return
		}
		if err == nil && pid > 0 {
			continue
		}
		if time.Now().After(deadline) {
			t.Errorf("%s: orphans: %v", victim, describe(descendants(t, os.Getpid())))
			return
		}
		if time.Now().After(reap) && (victim == "supervisor" || victim == "daemon") {
			c.pinfold(t, "reap", "--record", c.record)
			reap = deadline
		}
		time.Sleep(2 * time.Millisecond) // it is another process's death that is waited for
	}
}

// describe says what processes run and where they wait.
func describe(pids []int) []string {
	var out []string
	for _, pid := range pids {
		text := itoa(pid)
		for _, name := range []string{"cmdline", "stat", "wchan"} {
			b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, name))
			text += " " + strings.ReplaceAll(string(b), "\x00", " ")
		}
		out = append(out, text)
	}
	return out
}

func (c *chaosRun) exited() bool { return exists(c.record + "/exit") }

// exitCode compares what the supervisor recorded with what its parent saw, and
// both with what may come of such a death.
func (c *chaosRun) exitCode(t *testing.T, victim string, killed bool, file string) {
	seen := -1
	if b, err := os.ReadFile(file); err == nil {
		seen, _ = strconv.Atoi(strings.TrimSpace(string(b)))
	}
	recorded := -1
	var exit struct {
		Code   int
		Reason string
	}
	if b, err := os.ReadFile(c.record + "/exit"); err == nil {
		must(t, json.Unmarshal(b, &exit))
		recorded = exit.Code
	}
	c.count[fmt.Sprintf("%s:%d", victim, seen)]++
	switch {
	case victim == "supervisor" && killed && recorded == -1:
		if seen != 137 {
			t.Errorf("the parent saw %d of a killed supervisor", seen)
		}
		return
	case recorded != -1 && seen != -1 && recorded != seen:
		t.Errorf("%s: the parent saw %d, the record says %d", victim, seen, recorded)
	case recorded == -1 && exists(c.record+"/plan.json"):
		t.Errorf("%s: no exit is recorded", victim)
	}
	// 7 is the command's own, 143 and 137 of a stop or a kill, 125 of a launch
	// that broke off.
	if killed && recorded == 0 || recorded != -1 && recorded != 7 && recorded != 143 && recorded != 137 && recorded != 125 {
		t.Errorf("%s: recorded %d (%s)", victim, recorded, exit.Reason)
	}
	if victim == "nobody" && recorded == 125 && exit.Reason != "interrupted" {
		t.Errorf("nothing was killed, and the launch failed: %s", exit.Reason)
	}
}
