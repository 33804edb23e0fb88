package launch

import (
	"context"
	"errors"
	"testing"
	"time"

	"pinfold/container"
)

// slowEngine refuses what is just ending for a while.
type slowEngine struct {
	container.Provider
	noStops, noRemovals int // how often
	removed             bool
}

var errEnding = errors.New("it is just ending")

func (e *slowEngine) Stop(context.Context, container.Ref, time.Duration) error {
	if e.noStops--; e.noStops >= 0 {
		return errEnding
	}
	return nil
}

func (e *slowEngine) Remove(context.Context, container.Ref) error {
	if e.noRemovals--; e.noRemovals >= 0 {
		return errEnding
	}
	e.removed = true
	return nil
}

// A container of a failed launch goes, unless its engine refuses for good.
func TestDiscard(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		engine slowEngine
		fails  bool
	}{
		"at once":                  {slowEngine{}, false},
		"a stop that is refused":   {slowEngine{noStops: 100}, false},
		"a removal that comes off": {slowEngine{noStops: 1, noRemovals: 2}, false},
		"a removal that doesn't":   {slowEngine{noRemovals: 100}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &launcher{Process: &Process{o: Options{Provider: &c.engine}}}
			err := s.discard(t.Context())
			if c.fails != errors.Is(err, errEnding) || c.engine.removed == c.fails {
				t.Errorf("removed %v, %v", c.engine.removed, err)
			}
		})
	}
}
