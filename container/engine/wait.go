package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"pinfold/container"
)

// Wait returns the state once the container has ended.
func (e *Engine) Wait(ctx context.Context, r container.Ref) (container.State, error) {
	pause, patience := 50*time.Millisecond, firstLook
	for {
		s, err := e.waitOnce(ctx, r, patience)
		switch {
		case err == nil && s.Status == container.Gone:
			return s, e.noContainer("wait for", r)
		case err == nil && s.Status == container.Created:
			return s, fmt.Errorf("cannot wait for container %.12s: it was never started", r.ID)
		case err == nil && !s.Alive():
			return s, nil
		case err != nil && !unreachable(err):
			return container.State{}, err
		}
		// The engine went away, or says something in between: ask again.
		select {
		case <-ctx.Done():
			return container.State{}, errors.Join(ctx.Err(), err)
		case <-time.After(pause):
			pause, patience = min(2*pause, time.Second), min(2*patience, lastLook)
		}
	}
}

// waitInterval is how often podman looks whether a container has ended, and
// firstLook to lastLook how long this side waits for podman to say so until it
// looks for itself: an end that conmon didn't see podman never tells. Before
// that it looks a few times, firstGlance to lastGlance apart.
const (
	waitInterval = "20ms"
	firstLook    = 250 * time.Millisecond
	lastLook     = time.Minute
	firstGlance  = 4 * time.Millisecond
	lastGlance   = 64 * time.Millisecond
)

func (e *Engine) waitOnce(ctx context.Context, r container.Ref, patience time.Duration) (container.State, error) {
	if err := e.own(ctx, r); err != nil {
		return container.State{}, err
	}
	q := url.Values{"condition": {"not-running"}}
	waiting := ctx
	if e.podman {
		if s, err := e.endsSoon(ctx, r); err != nil || !s.Alive() {
			return s, err
		}
		q.Set("interval", waitInterval) // it looks every quarter of a second otherwise
		var cancel context.CancelFunc
		waiting, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	err := e.client.call(waiting, request{method: "POST", path: e.path(r, "/wait"), query: q}, nil)
	expired := waiting.Err() != nil && ctx.Err() == nil
	if err != nil && !expired && !isStatus(err, http.StatusNotFound) {
		return container.State{}, fmt.Errorf("cannot wait for container %.12s: %w", r.ID, err)
	}
	return e.Inspect(ctx, r)
}

// endsSoon looks for a moment whether a container ends just now. Podman's own
// wait ends only when podman has started itself once more and tidied up, which
// takes it a tenth of a second and is no part of the end: that is known before
// ("stopped"), and a removal does the rest.
func (e *Engine) endsSoon(ctx context.Context, r container.Ref) (container.State, error) {
	for pause := firstGlance; ; pause *= 2 {
		s, err := e.inspect(ctx, r)
		if err != nil || !s.Alive() || pause > lastGlance {
			return s, err
		}
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-time.After(pause):
		}
	}
}
