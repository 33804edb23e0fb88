package supervise

import (
	"context"
	"time"
)

// The idle timeout is looked at twenty times in its length, though not more
// than a hundred times a second.
const (
	idleLooks   = 20
	minIdleLook = 10 * time.Millisecond
)

// quieter is what knows how long nothing has gone through it, also once its
// connections have ended: a proxy, or what is carried beside it.
type quieter interface {
	Quiet() (least time.Duration, ok bool)
}

// AwaitSilence returns once for the limit nothing was said, by what differs
// then, and nothing went through any of the ways that can tell; or, with false,
// at the end of ctx or of the run. Nothing tells of silence, so it looks. The
// time in which this process itself was stopped doesn't count.
func AwaitSilence[T comparable](ctx context.Context, limit time.Duration, ended <-chan struct{}, said func() T, ways ...any) bool {
	look := max(limit/idleLooks, minIdleLook)
	ticker := time.NewTicker(look)
	defer ticker.Stop()
	before, since, last := said(), time.Now(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-ended:
			return false
		case <-ticker.C:
		}
		now := time.Now()
		if gap := now.Sub(last); gap > 4*look {
			since = since.Add(gap - look)
		}
		last = now
		if s := said(); s != before {
			before, since = s, now
		}
		if moved := lastMoved(now, ways); moved.After(since) {
			since = moved
		}
		if now.Sub(since) >= limit {
			return true
		}
	}
}

// lastMoved is zero where nothing has.
func lastMoved(now time.Time, ways []any) (last time.Time) {
	for _, way := range ways {
		q, tells := way.(quieter)
		if !tells {
			continue
		}
		if d, active := q.Quiet(); active && now.Add(-d).After(last) {
			last = now.Add(-d)
		}
	}
	return last
}
