//go:build linux

package container_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/container"
)

// untilGo waits for the file "go" in the workspace.
const untilGo = `while [ ! -e go ]; do sleep 0.02; done; echo evil >.envrc; exit 7`

// TestResumeComesLate: a container that has ended by itself meanwhile, or does
// so while it is taken over, ends the resuming as it would have ended the
// launch.
func TestResumeComesLate(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		let := filepath.Join(p.workspace, "go")
		for name, c := range map[string]struct {
			meanwhile func(r *running)
			want      int
			reason    string
		}{
			"it has ended": {func(r *running) {
				p.create(let)
				r.untilEnded()
			}, 7, "exited"},
			"it was killed": {func(r *running) {
				if err := p.e.Signal(t.Context(), refOf(r.stored().Container), unix.SIGKILL); err != nil {
					t.Fatal(err)
				}
				r.untilEnded()
			}, 137, "signaled"},
			"just now": {func(*running) { p.create(let) }, 7, "exited"},
			"in 60 ms": {func(*running) { time.AfterFunc(60*time.Millisecond, func() { p.create(let) }) }, 7, "exited"},
		} {
			r := p.start(missingNames, untilGo)
			r.killSupervisor()
			c.meanwhile(r)
			got := p.call("resume", "--record", r.record)
			e := r.stored().Exit
			if got.code != c.want || e == nil || e.Code != c.want || string(e.Reason) != c.reason {
				t.Errorf("%s: %v\nrecorded %+v", name, got, e)
			}
			if left := p.containers(t.Context()); len(left) > 0 {
				t.Errorf("%s: left %v", name, left)
			}
			if p.there(".envrc") {
				t.Errorf("%s: what host programs run stays", name)
			}
			if err := os.RemoveAll(let); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestResumesAtOnce: one takes it over, and the others are told why they don't.
func TestResumesAtOnce(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		r := p.start(nil, untilGo)
		r.killSupervisor()
		p.create(filepath.Join(p.workspace, "go"))
		r.untilEnded()
		var all [3]answer
		var wg sync.WaitGroup
		for i := range all {
			wg.Go(func() { all[i] = p.call("resume", "--record", r.record) })
		}
		wg.Wait()
		taken := 0
		for _, got := range all {
			switch {
			case got.code == 7:
				taken++
			case !strings.Contains(got.stderr, "not_resumable") && !strings.Contains(got.stderr, "a launch holds it"):
				t.Errorf("%v", got)
			}
		}
		if taken != 1 {
			t.Errorf("taken over %d times", taken)
		}
	})
}

// TestResumeAfterTheTimeout: it passes also while nobody supervises.
func TestResumeAfterTheTimeout(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		r := p.start(map[string]any{"limits": map[string]any{"timeout": "2s"}}, `while :; do sleep 0.1; done`)
		began := time.Now()
		r.killSupervisor()
		p.until("the timeout has passed", func() bool { return time.Since(began) > 2*time.Second })
		got := p.call("resume", "--record", r.record)
		if e := r.stored().Exit; got.code != 124 || e == nil || e.Reason != "timeout" {
			t.Errorf("%v\nrecorded %+v", got, e)
		}
	})
}

// TestRemovedMeanwhile: a command whose container somebody removes was killed,
// and didn't end well; or its boundary was lost, where what watches that sees its
// mounts go before the engine has said anything.
func TestRemovedMeanwhile(t *testing.T) {
	everyEngine(t, func(t *testing.T, l *lab) {
		p := newPen(t, l)
		r := p.start(nil, loop)
		if err := p.e.Remove(t.Context(), refOf(r.stored().Container)); err != nil {
			t.Fatal(err)
		}
		if code := r.wait(); code != container.KilledCode && code != 123 {
			t.Errorf("exit %d, %s", code, r.stderr.String())
		}
	})
}

func (p *pen) create(file string) {
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		p.t.Error(err)
	}
}

// untilEnded waits until the engine says that the container has ended.
func (r *running) untilEnded() {
	r.t.Helper()
	if _, err := r.e.Wait(r.t.Context(), refOf(r.stored().Container)); err != nil {
		r.t.Fatal(err)
	}
}
