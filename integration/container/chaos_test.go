//go:build linux

package container_test

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"pinfold/container/launch"
)

// chaosRounds is how often something is killed: few in every run, 200 in
// "make chaos".
func chaosRounds(t *testing.T) int {
	t.Helper()
	if n, err := strconv.Atoi(os.Getenv("PINFOLD_CHAOS")); err == nil && n > 0 {
		return n
	}
	return len(victims)
}

// victims are who may be killed. The daemon is the wrapper that pinfold's
// caller left behind, the minder the engine's own process beside the
// container: docker's shim, podman's conmon.
var victims = []string{"nobody", "daemon", "supervisor", "stub", "minder", "command"} //nolint:gochecknoglobals // a table

// afterwards is what is done about a launch then. Resuming is for one whose
// supervisor has gone.
var afterwards = []string{"wait", "stop", "reap", "resume"} //nolint:gochecknoglobals // a table

// TestChaos kills one of a launch's processes at a random moment, asks for
// adoption, then waits, stops, reaps or resumes. Never an orphan, never
// anything left with the engine or on the host, never a record that says what
// isn't so.
func TestChaos(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		rounds := chaosRounds(t)
		if l.name == "podman" {
			rounds = (rounds + 4) / 5
		}
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		c := newChaos(t, l, seed)
		for i := range rounds {
			c.round(i, victims[i%len(victims)])
			if t.Failed() {
				t.Fatalf("in round %d of %d: %v", i+1, rounds, c.count)
			}
		}
		c.nothingLeft()
		t.Logf("%d rounds: %v", rounds, c.count)
	})
}

type chaosRun struct {
	*pen
	random *rand.Rand
	before []string
	count  map[string]int // outcomes
}

func newChaos(t *testing.T, l *lab, seed uint64) *chaosRun {
	t.Helper()
	p := newPen(t, l)
	return &chaosRun{pen: p, random: rand.New(rand.NewPCG(seed, 0)), before: names(t, p.workspace), count: map[string]int{}} //nolint:gosec // of a test
}

// names are the paths of all that is in a directory, with their modes.
func names(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			out = append(out, path+" "+d.Type().String())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// oneRound is a launch, and what was done to it.
type oneRound struct {
	*running
	victim, then string
	killed       bool
	resumed      *answer  // of a resuming
	marks        []string // in the command lines of its processes
}

// round is one launch with one death. The execution is always the same one:
// none of the earlier launches may stand in its way.
func (c *chaosRun) round(number int, victim string) {
	c.t.Helper()
	r := &oneRound{running: c.launch(number), victim: victim, then: afterwards[c.random.IntN(len(afterwards))]}
	r.marks = []string{r.record}
	time.Sleep(time.Duration(c.random.IntN(1800)) * time.Millisecond) // the moment is what is tried
	r.killed = r.kill(c)
	r.asked(number)
	r.after(number)
	r.until("the wrapper ends", r.over)
	c.until("the supervisor ends", func() bool { return !runs(r.record) })
	if got := c.call("reap", "--record", r.record); got.code != 0 {
		c.t.Errorf("round %d, %s, %s: %v", number, r.victim, r.then, got)
	}
	r.check(c, number)
}

// launch starts one beneath a wrapper that notes its exit code. The name that
// is denied must not be makeable, so a mount point shows on the host as long as
// the launch lives.
func (c *chaosRun) launch(number int) *running {
	c.t.Helper()
	record := filepath.Join(c.state, fmt.Sprint("chaos-", number, "-", time.Now().UnixNano()))
	script := `trap 'exit 9' TERM; : ` + record + `; (while :; do sleep 0.1; done) & n=0; while [ $n -lt 8 ]; do n=$((n+1)); sleep 0.1; done; exit 5`
	inner := c.args(map[string]any{"read": map[string]any{"deny": []string{"{workspace}/never"}}}, script, "--execution", "chaos", "--record", record)
	r := &running{pen: c.pen, record: record, stderr: &buffer{}, ended: make(chan struct{})}
	r.cmd = c.command(context.Background(), inner...)
	r.cmd.Args = append([]string{"sh", "-c", `"$@"; echo $? > ` + record + ".code", "sh", c.bin}, inner...)
	r.cmd.Path = "/bin/sh"
	said, err := os.Create(record + ".said")
	if err != nil {
		c.t.Fatal(err)
	}
	defer said.Close() //nolint:errcheck // the launch has its own
	// A file, not a pipe: the supervisor may outlive the wrapper.
	r.cmd.Stdout, r.cmd.Stderr = said, said
	if err := r.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() {
		_ = r.cmd.Wait() //nolint:errcheck // its state says how it ended
		close(r.ended)
	}()
	return r
}

// kill kills the victim, if it is there by now.
func (r *oneRound) kill(c *chaosRun) bool {
	pid := 0
	switch r.victim {
	case "daemon":
		pid = r.cmd.Process.Pid
	case "supervisor":
		pid = firstChild(r.cmd.Process.Pid)
	case "stub", "minder", "command":
		pid = r.inContainer(c)
	}
	return pid > 1 && unix.Kill(pid, unix.SIGKILL) == nil
}

func (r *oneRound) inContainer(c *chaosRun) int {
	list := c.containers(c.t.Context())
	if len(list) == 0 {
		return 0
	}
	s := list[0]
	r.marks = append(r.marks, s.Ref.ID)
	switch {
	case s.Pid <= 1:
		return 0
	case r.victim == "minder":
		return parentOf(s.Pid)
	case r.victim == "command":
		return firstChild(s.Pid)
	}
	return s.Pid
}

// firstChild is a child of a process, of whichever thread.
func firstChild(pid int) int {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) //nolint:errcheck // a constant pattern
	for _, task := range tasks {
		b, err := os.ReadFile(task)
		if fields := strings.Fields(string(b)); err == nil && len(fields) > 0 {
			child, _ := strconv.Atoi(fields[0]) //nolint:errcheck // 0 is nobody
			return child
		}
	}
	return 0
}

func parentOf(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if err != nil || len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1]) //nolint:errcheck // 0 is nobody
	return parent
}

// asked asks whether the launch can be adopted: one whose supervisor was
// killed and that runs must not be.
func (r *oneRound) asked(number int) {
	r.t.Helper()
	got := r.call("adopt", "--record", r.record, "--parent", itoa(r.cmd.Process.Pid))
	if got.code == 0 && r.victim == "supervisor" && r.killed && strings.Contains(got.stdout, `"state": "running"`) {
		r.t.Errorf("round %d: adopted without a supervisor: %v", number, got)
	}
}

// after does something about the launch. A record may not be there yet, nor
// the launch far enough to be stopped or resumed.
func (r *oneRound) after(number int) {
	r.t.Helper()
	var got answer
	switch r.then {
	case "stop":
		got = r.call("stop", "--record", r.record)
	case "reap":
		got = r.call("reap", "--record", r.record)
	case "resume":
		if r.victim != "supervisor" || !r.killed {
			return
		}
		got = r.call("resume", "--quiet", "--record", r.record)
		r.resumed = &got
		if got.code == 125 && !strings.Contains(got.stderr, "not_resumable") && !strings.Contains(got.stderr, "no such file") && !r.neverRan() {
			r.t.Errorf("round %d: resuming: %v", number, got)
		}
		return
	case "wait":
		got = r.call("wait", "--record", r.record)
		return
	}
	if got.code != 0 && !strings.Contains(got.stderr, "cannot tell") && !strings.Contains(got.stderr, "no such file") {
		r.t.Errorf("round %d, %s: %v", number, r.victim, got)
	}
}

// neverRan: the stub's own end is recorded.
func (r *oneRound) neverRan() bool {
	e := r.stored().Exit
	return e != nil && e.Reason == "unavailable"
}

// runs reports whether a process has a text in its command line.
func runs(texts ...string) bool { return len(processesWith(texts...)) > 0 }

func processesWith(texts ...string) (out []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") //nolint:errcheck // a constant pattern
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err == nil && slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(string(b), t) }) {
			out = append(out, filepath.Dir(f)+" "+strings.ReplaceAll(string(b), "\x00", " "))
		}
	}
	return out
}

// check is what must hold after every round.
func (r *oneRound) check(c *chaosRun, number int) {
	c.t.Helper()
	what := fmt.Sprintf("round %d, %s (killed: %v), %s", number, r.victim, r.killed, r.then)
	for _, s := range c.containers(c.t.Context()) {
		c.t.Errorf("%s: left %s, %s", what, s.Ref.ID, s.Status)
		_ = c.e.Remove(c.t.Context(), s.Ref) //nolint:errcheck // said already
	}
	stored := r.stored()
	if stored.Container != nil {
		r.marks = append(r.marks, stored.Container.ID)
	}
	for end := time.Now().Add(10 * time.Second); runs(r.marks...); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			c.t.Errorf("%s: orphans: %q", what, processesWith(r.marks...))
			break
		}
	}
	if diff := cmp.Diff(c.before, names(c.t, c.workspace)); diff != "" {
		c.t.Errorf("%s: the workspace changed (-before +after):\n%s", what, diff)
	}
	if left, _ := filepath.Glob(r.record + "/.*"); len(left) > 0 { //nolint:errcheck // a constant pattern
		c.t.Errorf("%s: left in the record: %q", what, left)
	}
	r.checkVerdict(c, what)
	if c.t.Failed() {
		said, _ := os.ReadFile(r.record + ".said") //nolint:errcheck // it only adds to the message
		c.t.Logf("%s: it said %q; recorded %+v; it may have run: %v", what, said, stored.Exit, stored.Root != nil)
	}
}

// checkVerdict: a recorded end is one that can have been, and what the caller
// saw.
func (r *oneRound) checkVerdict(c *chaosRun, what string) {
	c.t.Helper()
	s := r.stored()
	seen := "-"
	if b, err := os.ReadFile(r.record + ".code"); err == nil {
		seen = strings.TrimSpace(string(b))
	}
	got := "none"
	if s.Exit != nil {
		got = fmt.Sprint(s.Exit.Reason, " ", s.Exit.Code)
	}
	c.count[r.victim+": "+got]++
	supervised := r.victim != "supervisor" || !r.killed
	switch {
	case s.Exit == nil && s.Container != nil:
		c.t.Errorf("%s: no end is recorded", what)
	case s.Exit != nil && supervised && seen != "-" && seen != strconv.Itoa(s.Exit.Code):
		c.t.Errorf("%s: the caller saw %s, recorded %s", what, seen, got)
	case s.Exit != nil && r.resumed != nil && r.resumed.code != 125 && r.resumed.code != s.Exit.Code:
		c.t.Errorf("%s: recorded %s, and the resuming: %v", what, got, r.resumed)
	}
	if s.Exit != nil && !slices.Contains(r.mayEnd(), got) {
		c.t.Errorf("%s: recorded %q", what, got)
	}
}

// mayEnd are the ends that can be.
func (r *oneRound) mayEnd() []string {
	out := []string{"exited 5"}
	// A stop is noted before it is sent, and the command may end by itself just
	// then: "interrupted 5". A reaping stops what has lost its supervisor, and
	// comes last of all.
	if r.then == "stop" || r.victim == "supervisor" && (r.then == "reap" || r.resumed != nil && r.resumed.code == 125) {
		out = append(out, "interrupted 5", "interrupted 9", "interrupted 143", "interrupted 125", "unavailable 125")
	}
	if !r.killed {
		return out
	}
	switch r.victim {
	case "supervisor": // and the stub ends by itself before the command runs
		out = append(out, "unavailable 125", "interrupted 125")
	case "stub", "minder", "command":
		out = append(out, "signaled 137", "interrupted 137", "unavailable 125")
	}
	return out
}

// nothingLeft looks at the state directory, once what was made just now has
// had its time to be taken for lost.
func (c *chaosRun) nothingLeft() {
	c.t.Helper()
	left := func() (out []string) {
		for _, pattern := range []string{
			launch.DirsName + "/*/keeps", "run/*", "workspace/*", "tmp/*", "covers/*.*",
		} {
			found, err := filepath.Glob(filepath.Join(c.state, pattern))
			if err != nil {
				c.t.Fatal(err)
			}
			out = append(out, found...)
		}
		return out
	}
	for end := time.Now().Add(20 * time.Second); len(left()) > 0; time.Sleep(500 * time.Millisecond) {
		if got := c.call("reap"); got.code != 0 {
			c.t.Errorf("%v", got)
		}
		if time.Now().After(end) {
			c.t.Errorf("left behind: %q", left())
			return
		}
	}
}
