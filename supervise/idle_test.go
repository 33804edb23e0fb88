package supervise_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"pinfold/supervise"
)

// line is a way out whose only connection was used last at a moment, and has
// been closed at another.
type line struct{ began, used, closed time.Time }

func (l line) Quiet() (time.Duration, bool) {
	now := time.Now()
	if now.Before(l.began) || now.After(l.closed) {
		return 0, false
	}
	if now.Before(l.used) {
		return 0, true
	}
	return now.Sub(l.used), true
}

// TestAwaitSilence: what was said or moved last begins the silence, also once
// its connection is gone.
func TestAwaitSilence(t *testing.T) {
	t.Parallel()
	const limit = 10 * time.Second
	for name, c := range map[string]struct {
		saidUntil, began, used, closed, want time.Duration
	}{
		"nothing":                      {0, 0, 0, 0, limit},
		"something said":               {7 * time.Second, 0, 0, 0, 17 * time.Second},
		"a transfer":                   {0, time.Second, 25 * time.Second, time.Hour, 35 * time.Second},
		"a transfer, then closed":      {0, time.Second, 25 * time.Second, 25 * time.Second, 35 * time.Second},
		"a connection that lies there": {0, time.Second, 2 * time.Second, time.Hour, 12 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				said := func() time.Duration { return min(time.Since(began), c.saidUntil) }
				l := line{began.Add(c.began), began.Add(c.used), began.Add(c.closed)}
				if !supervise.AwaitSilence(t.Context(), limit, nil, said, nil, l) {
					t.Error("the run has ended")
				}
				if took := time.Since(began); took < c.want-time.Second || took > c.want+time.Second {
					t.Errorf("it took %v, wanted %v", took, c.want)
				}
			})
		})
	}
}

// often is a way on which a connection comes and goes between two looks.
type often struct{ began, last time.Time }

func (o often) Quiet() (time.Duration, bool) {
	const each = 300 * time.Millisecond
	now := time.Now()
	if now.After(o.last) {
		return now.Sub(o.last), true
	}
	return now.Sub(o.began) % each, true
}

// TestAwaitSilenceOfShortConnections: they are no silence, their end begins one.
func TestAwaitSilenceOfShortConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		o := often{began, began.Add(30 * time.Second)}
		if !supervise.AwaitSilence(t.Context(), 2*time.Second, nil, func() int { return 0 }, o) {
			t.Error("the run has ended")
		}
		if took := time.Since(began); took < 32*time.Second || took > 33*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// TestAwaitSilenceEnds: with the run, or with who waits.
func TestAwaitSilenceEnds(t *testing.T) {
	t.Parallel()
	ended, over := make(chan struct{}), t.Context()
	close(ended)
	said := func() int { return 0 }
	if supervise.AwaitSilence(over, time.Hour, ended, said) {
		t.Error("a run that has ended was silent")
	}
	over, cancel := context.WithCancel(over)
	cancel()
	if supervise.AwaitSilence(over, time.Hour, nil, said) {
		t.Error("nobody waits, and it was silent")
	}
}
