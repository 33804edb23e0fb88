package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"pinfold/container"
)

// Subject is what a provider is checked with.
type Subject struct {
	// Run is a container whose pid 1 is "sh -c SCRIPT".
	Run func(script string) container.Spec
	// Unique tells this check's containers from all others.
	Unique string
}

// The promises.
const (
	PromiseCreated        = "a created container isn't started"
	PromiseStartedOnce    = "a container is started once"
	PromiseExits          = "an exit is reported"
	PromiseLists          = "a listing holds exactly what carries the labels"
	PromiseSignals        = "a signal reaches pid 1"
	PromiseStops          = "a stop is over once nothing runs"
	PromiseStopsTheDeaf   = "a stop ends what ignores SIGTERM"
	PromiseRemoves        = "a removed container is gone, and no error"
	PromiseRemovesRunning = "a running container is removed"
	PromiseAbsent         = "what isn't there can't be started, signalled or waited for"
	PromiseOtherEngine    = "another engine's container is an error, never gone"
	PromiseFailsToStart   = "a failed start is told from an exit"
	PromiseNoImage        = "an image that isn't there is refused"
	PromiseMissingSource  = "a bind of what isn't there is an error, and makes nothing"
	PromiseSameIdentity   = "an engine is the same each time it is asked"
)

// step is one promise.
type step struct {
	name string
	run  func(context.Context, *check) error
}

var steps = []step{ //nolint:gochecknoglobals // a table
	{PromiseCreated, created},
	{PromiseStartedOnce, startedOnce},
	{PromiseExits, exits},
	{PromiseLists, lists},
	{PromiseSignals, signals},
	{PromiseStops, stops},
	{PromiseStopsTheDeaf, stopsTheDeaf},
	{PromiseRemoves, removes},
	{PromiseRemovesRunning, removesRunning},
	{PromiseAbsent, absent},
	{PromiseOtherEngine, otherEngine},
	{PromiseFailsToStart, failsToStart},
	{PromiseNoImage, noImage},
	{PromiseMissingSource, missingSource},
	{PromiseSameIdentity, sameIdentity},
}

// check is one run of the suite.
type check struct {
	container.Provider
	subject Subject
	made    []container.Ref
}

// Check goes through everything a provider promises. All failures are in the
// error, each with the promise that it breaks.
func Check(ctx context.Context, p container.Provider, s Subject) error {
	var errs []error
	for _, st := range steps {
		errs = append(errs, st.check(ctx, p, s))
	}
	return errors.Join(errs...)
}

// Try goes through one promise, by its name.
func Try(ctx context.Context, p container.Provider, s Subject, promise string) error {
	for _, st := range steps {
		if st.name == promise {
			return st.check(ctx, p, s)
		}
	}
	return fmt.Errorf("internal error: there is no promise %q", promise)
}

func (st step) check(ctx context.Context, p container.Provider, s Subject) error {
	c := &check{Provider: p, subject: s}
	err := st.run(ctx, c)
	if err = errors.Join(err, c.clean(ctx)); err != nil {
		return fmt.Errorf("%s: %w", st.name, err)
	}
	return nil
}

// clean removes what a step made.
func (c *check) clean(ctx context.Context) error {
	var errs []error
	for _, r := range c.made {
		errs = append(errs, c.Remove(context.WithoutCancel(ctx), r))
	}
	return errors.Join(errs...)
}

func (c *check) labels(owner string) map[string]string {
	return map[string]string{container.LabelHost: "conformance-" + c.subject.Unique, container.LabelExecution: owner}
}

// create makes a container of an owner's.
func (c *check) create(ctx context.Context, owner, script string) (container.Ref, error) {
	s := c.subject.Run(script)
	s.Labels = maps.Clone(s.Labels)
	if s.Labels == nil {
		s.Labels = map[string]string{}
	}
	maps.Copy(s.Labels, c.labels(owner))
	r, err := c.Create(ctx, s)
	if err == nil {
		c.made = append(c.made, r)
	}
	return r, err
}

// run creates and starts one.
func (c *check) run(ctx context.Context, owner, script string) (container.Ref, error) {
	r, err := c.create(ctx, owner, script)
	if err != nil {
		return r, err
	}
	return r, c.Start(ctx, r)
}

func (c *check) expect(ctx context.Context, r container.Ref, status container.Status) (container.State, error) {
	s, err := c.Inspect(ctx, r)
	if err == nil && s.Status != status {
		err = fmt.Errorf("got status %q, wanted %q", s.Status, status)
	}
	return s, err
}

func created(ctx context.Context, c *check) error {
	r, err := c.create(ctx, "a", "exit 0")
	if err != nil {
		return err
	}
	info, err := c.Info(ctx)
	if err != nil {
		return err
	}
	s, err := c.expect(ctx, r, container.Created)
	switch {
	case err != nil:
		return err
	case !s.StartedAt.IsZero() || s.Pid != 0 || s.Alive() || s.Ended():
		return fmt.Errorf("it looks started: %+v", s)
	case r.Daemon != info.Identity || s.Ref.Daemon != info.Identity || r.Provider != c.Name():
		return fmt.Errorf("its reference names another engine: %+v", r)
	case !container.HasLabels(s.Labels, c.labels("a")):
		return fmt.Errorf("it lacks its labels: %v", s.Labels)
	case !container.IsImageID(s.ImageID) || s.ImageID != c.subject.Run("").Image:
		return fmt.Errorf("it runs the image %q", s.ImageID)
	}
	if _, err := c.Wait(ctx, r); err == nil {
		return errors.New("to wait for it is no error")
	}
	return nil
}

func startedOnce(ctx context.Context, c *check) error {
	r, err := c.run(ctx, "a", "sleep 600")
	if err != nil {
		return err
	}
	s, err := c.expect(ctx, r, container.Running)
	switch {
	case err != nil:
		return err
	case s.Pid <= 0 || s.StartedAt.IsZero() || !s.Alive():
		return fmt.Errorf("it doesn't look started: %+v", s)
	}
	if c.Start(ctx, r) == nil {
		return errors.New("a running one can be started")
	}
	if err := c.Stop(ctx, r, 0); err != nil {
		return err
	}
	if c.Start(ctx, r) == nil {
		return errors.New("one that has run can be started again")
	}
	return nil
}

func exits(ctx context.Context, c *check) error {
	r, err := c.run(ctx, "a", "exit 7")
	if err != nil {
		return err
	}
	s, err := c.Wait(ctx, r)
	switch {
	case err != nil:
		return err
	case s.Status != container.Exited || s.ExitCode != 7 || s.Pid != 0 || s.Alive() || !s.Ended():
		return fmt.Errorf("got %+v, wanted an exit with 7", s)
	case s.StartedAt.IsZero() || s.FinishedAt.IsZero():
		// Which of the two is later isn't asked: docker notes the start of a
		// short run after its end.
		return fmt.Errorf("it began at %v and ended at %v", s.StartedAt, s.FinishedAt)
	}
	return nil
}
