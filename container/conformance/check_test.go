package conformance_test

import (
	"context"
	"errors"
	"testing"

	"pinfold/container"
	"pinfold/container/conformance"
)

// early is an engine that refuses each container at its creation.
type early struct {
	container.Provider
	why  string
	left []container.State
}

func (e early) Create(context.Context, container.Spec) (container.Ref, error) {
	return container.Ref{}, errors.New(e.why)
}

func (e early) List(context.Context, map[string]string) ([]container.State, error) {
	return e.left, nil
}

// TestFailsToStartWantsTheReason: an engine may refuse a missing program as
// early as at the creation, but no other failure passes for that.
func TestFailsToStartWantsTheReason(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		engine early
		passes bool
	}{
		"the program is named": {early{why: `cannot create: exec "/no/such/program": no such file or directory`}, true},
		"another failure":      {early{why: "cannot create: the disk is full"}, false},
		"something is left":    {early{why: `exec "/no/such/program": no such file`, left: make([]container.State, 1)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := conformance.Subject{Unique: "u", Run: func(string) container.Spec { return container.Spec{} }}
			if err := conformance.Try(t.Context(), c.engine, s, conformance.PromiseFailsToStart); (err == nil) != c.passes {
				t.Errorf("got %v, wanted it to pass: %v", err, c.passes)
			}
		})
	}
}
