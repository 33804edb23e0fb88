//go:build linux

package container_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// chaosRounds is how often something is killed: few in every run, 200 in
// "make chaos".
func chaosRounds(t *testing.T) int {
	t.Helper()
	if n, err := strconv.Atoi(os.Getenv("PINFOLD_CHAOS")); err == nil && n > 0 {
		return n
	}
	return 6
}

// TestChaos kills the supervisor, the container or its stub at random moments,
// and looks each time that nothing is orphaned after a reaping, and that no
// record says what isn't so.
func TestChaos(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		rounds := chaosRounds(t)
		if l.name != "docker" {
			rounds = (rounds + 4) / 5
		}
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // of a test
		for i := range rounds {
			p.chaosRound(random, i)
		}
	})
}

func (p *pen) chaosRound(random *rand.Rand, round int) {
	p.t.Helper()
	r := p.begin(nil, `trap 'exit 9' TERM; n=0; while [ $n -lt 8 ]; do n=$((n+1)); sleep 0.1; done; exit 5`, "--execution", fmt.Sprint("chaos-", round))
	time.Sleep(time.Duration(random.IntN(1800)) * time.Millisecond)
	what := []string{"supervisor", "container", "stop", "nothing"}[random.IntN(4)]
	switch what {
	case "supervisor":
		_ = r.cmd.Process.Kill()
	case "container":
		for _, s := range p.containers(p.t.Context()) {
			_ = p.e.Signal(p.t.Context(), s.Ref, 9) // it may be created only, or gone
		}
	case "stop":
		if got := p.call("stop", "--record", r.record); got.code != 0 && !strings.Contains(got.stderr, "cannot tell") && !strings.Contains(got.stderr, "no such file") {
			p.t.Errorf("round %d: %v", round, got)
		}
	}
	r.until("the supervisor ends", r.over)
	if got := p.call("reap", "--record", r.record); got.code != 0 {
		p.t.Errorf("round %d, %s: %v", round, what, got)
	}
	for _, s := range p.containers(p.t.Context()) {
		p.t.Errorf("round %d, %s: left %s, %s", round, what, s.Ref.ID, s.Status)
		_ = p.e.Remove(p.t.Context(), s.Ref)
	}
	r.checkVerdict(what, round)
}

// checkVerdict: a recorded end is one that can have been.
func (r *running) checkVerdict(what string, round int) {
	r.t.Helper()
	s := r.stored()
	if s.Exit == nil {
		if s.Container != nil && what != "supervisor" {
			r.t.Errorf("round %d, %s: no end is recorded: %s", round, what, r.stderr.String())
		}
		return
	}
	allowed := map[string][]string{
		// A stop is noted before it is sent, and the command may end by itself
		// just then: "interrupted 5".
		"supervisor": {"exited 5", "interrupted 5", "interrupted 9", "interrupted 143", "interrupted 137", "interrupted 125", "unavailable 125"},
		"container":  {"exited 5", "signaled 137", "unavailable 125"},
		"stop":       {"exited 5", "interrupted 5", "interrupted 9", "interrupted 143", "interrupted 125", "unavailable 125"},
		"nothing":    {"exited 5"},
	}[what]
	got := fmt.Sprint(s.Exit.Reason, " ", s.Exit.Code)
	for _, a := range allowed {
		if got == a {
			return
		}
	}
	r.t.Errorf("round %d, %s: recorded %q\n%s", round, what, got, r.stderr.String())
}
