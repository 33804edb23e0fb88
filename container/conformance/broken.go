package conformance

import (
	"context"
	"errors"
	"maps"
	"os"
	"syscall"
	"time"

	"pinfold/container"
)

// Control is a provider that is wrong in one way, and the promise that it
// breaks.
type Control struct {
	Name    string
	Promise string
	container.Provider
}

// Broken are providers that are wrong in one way each, made from a right one.
// [Try] must fail each of them at its promise.
func Broken(p container.Provider) []Control {
	return []Control{
		{"a listing that ignores the owner", PromiseLists, ignoresOwner{p}},
		{"a listing that fails as none", PromiseLists, listsNothing{p}},
		{"a listing of what runs alone", PromiseLists, listsRunning{p}},
		{"a removed container as an error", PromiseRemoves, goneIsError{p}},
		{"a created one reported started", PromiseCreated, createdRuns{p}},
		{"a created one that is started", PromiseCreated, startsAtOnce{p}},
		{"a start that may be repeated", PromiseStartedOnce, startsTwice{p}},
		{"an exit code lost", PromiseExits, losesCode{p}},
		{"a stop that only asks", PromiseStops, asksOnly{p}},
		{"a stop that doesn't get to KILL", PromiseStopsTheDeaf, termOnly{p}},
		{"another engine's container reported gone", PromiseOtherEngine, foreignGone{p}},
		{"a signal that is dropped", PromiseSignals, dropsSignal{p}},
		{"a removal that is claimed", PromiseRemoves, keepsIt{p}},
		{"a bind that makes its source", PromiseMissingSource, makesSources{p}},
		{"an identity that is new each time", PromiseSameIdentity, &newIdentity{Provider: p}},
		{"an image that isn't the one asked for", PromiseNoImage, otherImage{p}},
		{"a start that failed reported as a success", PromiseFailsToStart, hidesFailure{p}},
		{"a creation that always fails", PromiseFailsToStart, createsNothing{p}},
		{"a start that fails for no reason", PromiseFailsToStart, losesReason{p}},
	}
}

type ignoresOwner struct{ container.Provider }

func (b ignoresOwner) List(ctx context.Context, labels map[string]string) ([]container.State, error) {
	labels = maps.Clone(labels)
	delete(labels, container.LabelExecution)
	return b.Provider.List(ctx, labels)
}

type listsNothing struct{ container.Provider }

func (listsNothing) List(context.Context, map[string]string) ([]container.State, error) {
	return nil, nil
}

type listsRunning struct{ container.Provider }

func (b listsRunning) List(ctx context.Context, labels map[string]string) ([]container.State, error) {
	all, err := b.Provider.List(ctx, labels)
	var out []container.State
	for _, s := range all {
		if s.Status == container.Running {
			out = append(out, s)
		}
	}
	return out, err
}

type goneIsError struct{ container.Provider }

func (b goneIsError) Inspect(ctx context.Context, r container.Ref) (container.State, error) {
	s, err := b.Provider.Inspect(ctx, r)
	if err == nil && s.Status == container.Gone {
		err = container.ErrNoContainer
	}
	return s, err
}

type createdRuns struct{ container.Provider }

func (b createdRuns) Inspect(ctx context.Context, r container.Ref) (container.State, error) {
	s, err := b.Provider.Inspect(ctx, r)
	if s.Status == container.Created {
		s.Status, s.StartedAt = container.Running, s.CreatedAt
	}
	return s, err
}

type startsAtOnce struct{ container.Provider }

func (b startsAtOnce) Create(ctx context.Context, s container.Spec) (container.Ref, error) {
	r, err := b.Provider.Create(ctx, s)
	if err != nil {
		return r, err
	}
	return r, b.Start(ctx, r)
}

type startsTwice struct{ container.Provider }

func (b startsTwice) Start(ctx context.Context, r container.Ref) error {
	if s, err := b.Inspect(ctx, r); err == nil && (s.Status == container.Running || s.Ended()) {
		return nil
	}
	return b.Provider.Start(ctx, r)
}

type losesCode struct{ container.Provider }

func (b losesCode) Wait(ctx context.Context, r container.Ref) (container.State, error) {
	s, err := b.Provider.Wait(ctx, r)
	s.ExitCode = 0
	return s, err
}

type asksOnly struct{ container.Provider }

func (b asksOnly) Stop(ctx context.Context, r container.Ref, _ time.Duration) error {
	if s, err := b.Inspect(ctx, r); err != nil || !s.Alive() {
		return err
	}
	return b.Signal(ctx, r, syscall.SIGTERM)
}

type termOnly struct{ container.Provider }

func (b termOnly) Stop(ctx context.Context, r container.Ref, grace time.Duration) error {
	if s, err := b.Inspect(ctx, r); err != nil || !s.Alive() {
		return err
	}
	if err := b.Signal(ctx, r, syscall.SIGTERM); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, max(grace, time.Second))
	defer cancel()
	_, err := b.Wait(ctx, r)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

type foreignGone struct{ container.Provider }

func (b foreignGone) Inspect(ctx context.Context, r container.Ref) (container.State, error) {
	s, err := b.Provider.Inspect(ctx, r)
	if errors.Is(err, container.ErrOtherEngine) {
		return container.State{Ref: r, Status: container.Gone}, nil
	}
	return s, err
}

type dropsSignal struct{ container.Provider }

func (dropsSignal) Signal(context.Context, container.Ref, syscall.Signal) error { return nil }

type keepsIt struct{ container.Provider }

func (b keepsIt) Remove(ctx context.Context, r container.Ref) error {
	if s, err := b.Inspect(ctx, r); err != nil || s.Status == container.Created {
		return err
	}
	return b.Provider.Remove(ctx, r)
}

type makesSources struct{ container.Provider }

func (b makesSources) Create(ctx context.Context, s container.Spec) (container.Ref, error) {
	for _, m := range s.Mounts {
		if err := os.MkdirAll(m.Source, 0o755); err != nil {
			return container.Ref{}, err
		}
	}
	return b.Provider.Create(ctx, s)
}

type newIdentity struct {
	container.Provider
	n int
}

func (b *newIdentity) Info(ctx context.Context) (container.Info, error) {
	i, err := b.Provider.Info(ctx)
	b.n++
	i.Identity += string(rune('a' + b.n%26))
	return i, err
}

type otherImage struct{ container.Provider }

func (b otherImage) Resolve(ctx context.Context, name string) (container.Image, error) {
	i, err := b.Provider.Resolve(ctx, name)
	i.ID = "sha256:" + digest([]byte(i.ID))
	return i, err
}

type hidesFailure struct{ container.Provider }

func (b hidesFailure) Start(ctx context.Context, r container.Ref) error {
	err := b.Provider.Start(ctx, r)
	if s, again := b.Inspect(ctx, r); again == nil && s.StartedAt.IsZero() {
		return nil
	}
	return err
}

type createsNothing struct{ container.Provider }

func (createsNothing) Create(context.Context, container.Spec) (container.Ref, error) {
	return container.Ref{}, errors.New("the engine is busy")
}

type losesReason struct{ container.Provider }

func (b losesReason) Start(ctx context.Context, r container.Ref) error {
	if err := b.Provider.Start(ctx, r); err != nil {
		return errors.New("the engine is busy")
	}
	return nil
}
