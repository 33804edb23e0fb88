//go:build linux

package container_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/container/engine"
)

// TestMinderKilled: the engine's own process beside the container is killed.
// Docker ends the container then; podman doesn't even learn of its end, and
// says for good that it runs. The end is known all the same, and soon.
func TestMinderKilled(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		t.Run("supervised", func(t *testing.T) {
			r := p.start(nil, "sleep 1; exit 5")
			r.killMinder(t)
			r.endsWith(t, r.wait(), 5)
		})
		t.Run("alone", func(t *testing.T) {
			r := p.start(nil, "sleep 1; exit 5")
			r.killSupervisor()
			r.killMinder(t)
			r.endsWith(t, p.call("wait", "--record", r.record).code, 5)
		})
		t.Run("stopped", func(t *testing.T) {
			r := p.start(nil, loop)
			r.killSupervisor()
			r.killMinder(t)
			if got := p.call("stop", "--record", r.record); got.code != 0 {
				t.Errorf("%v", got)
			}
			r.endsWith(t, p.call("wait", "--record", r.record).code, 9)
		})
	})
}

func (r *running) killMinder(t *testing.T) {
	t.Helper()
	if err := unix.Kill(parentOf(r.stored().Root.Init.PID), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	t.Cleanup(func() {
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("the end was known after %v", took)
		}
	})
}

// endsWith: podman's container ends as it would have, docker's so or by being
// killed, whichever comes first; and nothing is left once a reaping has been
// there.
func (r *running) endsWith(t *testing.T, got, want int) {
	t.Helper()
	if r.l.engine == engine.Docker && got == 137 {
		want = 137
	}
	if got != want {
		t.Errorf("exit code %d, wanted %d: %s", got, want, r.stderr.String())
	}
	if got := r.call("reap", "--record", r.record); got.code != 0 {
		t.Errorf("%v", got)
	}
	if e := r.stored().Exit; e == nil || e.Code != want {
		t.Errorf("recorded %+v", e)
	}
	if left := r.containers(t.Context()); len(left) != 0 {
		t.Errorf("left behind: %+v", left)
	}
}
