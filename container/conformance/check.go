package conformance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

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

func lists(ctx context.Context, c *check) error {
	want := map[string]container.Ref{}
	for _, owner := range []string{"a", "b"} {
		r, err := c.create(ctx, owner, "exit 0")
		if err != nil {
			return err
		}
		want[owner] = r
	}
	for owner, r := range want {
		if err := c.listed(ctx, c.labels(owner), r); err != nil {
			return err
		}
	}
	if err := c.listed(ctx, map[string]string{container.LabelHost: c.labels("a")[container.LabelHost], container.LabelExecution: ""}, want["a"], want["b"]); err != nil {
		return err
	}
	if err := c.listed(ctx, c.labels("nobody")); err != nil {
		return err
	}
	// Whatever it does, it is listed.
	if err := c.Start(ctx, want["a"]); err != nil {
		return err
	}
	if _, err := c.Wait(ctx, want["a"]); err != nil {
		return err
	}
	return c.listed(ctx, c.labels("a"), want["a"])
}

// listed compares a listing with the containers that it has to hold.
func (c *check) listed(ctx context.Context, labels map[string]string, want ...container.Ref) error {
	got, err := c.List(ctx, labels)
	if err != nil {
		return err
	}
	var ids, wanted []string
	for _, s := range got {
		ids = append(ids, s.Ref.ID)
	}
	for _, r := range want {
		wanted = append(wanted, r.ID)
	}
	slices.Sort(ids)
	slices.Sort(wanted)
	if !slices.Equal(ids, wanted) {
		return fmt.Errorf("a listing of %v has %.12v, wanted %.12v", labels, ids, wanted)
	}
	return nil
}

func signals(ctx context.Context, c *check) error {
	r, err := c.run(ctx, "a", "trap 'exit 9' USR1; while :; do sleep 0.05; done")
	if err != nil {
		return err
	}
	s, err := c.signalled(ctx, r, syscall.SIGUSR1)
	if err == nil && s.ExitCode != 9 {
		err = fmt.Errorf("it exited with %d, wanted 9", s.ExitCode)
	}
	return err
}

// signalled sends a signal until the container has ended: the first may come
// before its trap is set.
func (c *check) signalled(ctx context.Context, r container.Ref, sig syscall.Signal) (container.State, error) {
	for range maxSignals {
		if err := c.Signal(ctx, r, sig); err != nil {
			s, again := c.Inspect(ctx, r)
			if again == nil && s.Ended() {
				return s, nil
			}
			return s, errors.Join(err, again)
		}
		short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
		s, err := c.Wait(short, r)
		cancel()
		if err == nil || ctx.Err() != nil {
			return s, err
		}
	}
	return container.State{}, fmt.Errorf("%d signals didn't end it", maxSignals)
}

// maxSignals, three a second, are more than a shell needs to set a trap.
const maxSignals = 20

func stops(ctx context.Context, c *check) error {
	r, err := c.run(ctx, "a", "trap 'exit 5' TERM; while :; do sleep 0.05; done")
	if err != nil {
		return err
	}
	if err := c.Stop(ctx, r, 10*time.Second); err != nil {
		return err
	}
	s, err := c.expect(ctx, r, container.Exited)
	if err != nil {
		return err
	}
	// 143: the stop came before the trap, which pid 1 has no default for on
	// most engines; then it is killed.
	if s.ExitCode != 5 && s.ExitCode != 137 && s.ExitCode != 143 {
		return fmt.Errorf("it exited with %d", s.ExitCode)
	}
	return c.Stop(ctx, r, 0) // stopped is stopped
}

func stopsTheDeaf(ctx context.Context, c *check) error {
	r, err := c.run(ctx, "a", "trap '' TERM; while :; do sleep 1; done")
	if err != nil {
		return err
	}
	if err := c.Stop(ctx, r, time.Second); err != nil {
		return err
	}
	s, err := c.expect(ctx, r, container.Exited)
	if err == nil && s.ExitCode != 137 {
		err = fmt.Errorf("it exited with %d, wanted 137", s.ExitCode)
	}
	return err
}

func removes(ctx context.Context, c *check) error {
	r, err := c.create(ctx, "a", "exit 0")
	if err != nil {
		return err
	}
	for range 2 { // gone is gone
		if err := c.Remove(ctx, r); err != nil {
			return err
		}
		s, err := c.expect(ctx, r, container.Gone)
		if err != nil || s.Alive() {
			return fmt.Errorf("after it was removed: %+v, %w", s, err)
		}
	}
	if err := c.Stop(ctx, r, 0); err != nil {
		return fmt.Errorf("to stop what is gone: %w", err)
	}
	return c.listed(ctx, c.labels("a"))
}

func removesRunning(ctx context.Context, c *check) error {
	r, err := c.run(ctx, "a", "sleep 600")
	if err != nil {
		return err
	}
	if err := c.Remove(ctx, r); err != nil {
		return err
	}
	_, err = c.expect(ctx, r, container.Gone)
	return err
}

func absent(ctx context.Context, c *check) error {
	r, err := c.create(ctx, "a", "exit 0")
	if err != nil {
		return err
	}
	if err := c.Remove(ctx, r); err != nil {
		return err
	}
	_, waited := c.Wait(ctx, r)
	for what, err := range map[string]error{"start": c.Start(ctx, r), "signal": c.Signal(ctx, r, syscall.SIGTERM), "wait": waited} {
		if !errors.Is(err, container.ErrNoContainer) {
			return fmt.Errorf("%s: got %v, wanted %w", what, err, container.ErrNoContainer)
		}
	}
	return nil
}

func otherEngine(ctx context.Context, c *check) error {
	r, err := c.create(ctx, "a", "exit 0")
	if err != nil {
		return err
	}
	r.Daemon += "-another"
	s, inspected := c.Inspect(ctx, r)
	if inspected == nil {
		return fmt.Errorf("inspect says %q of it", s.Status)
	}
	for what, err := range map[string]error{
		"inspect": inspected, "start": c.Start(ctx, r), "stop": c.Stop(ctx, r, 0),
		"signal": c.Signal(ctx, r, syscall.SIGTERM), "remove": c.Remove(ctx, r),
	} {
		if !errors.Is(err, container.ErrOtherEngine) {
			return fmt.Errorf("%s: got %v, wanted %w", what, err, container.ErrOtherEngine)
		}
	}
	return nil
}

func failsToStart(ctx context.Context, c *check) error {
	s := c.subject.Run("")
	s.Entrypoint = []string{"/no/such/program"}
	s.Labels = c.labels("a")
	r, err := c.Create(ctx, s)
	if err != nil {
		return nil //nolint:nilerr // an engine may see it that early
	}
	c.made = append(c.made, r)
	if c.Start(ctx, r) == nil {
		return errors.New("a program that isn't there can be started")
	}
	got, err := c.Inspect(ctx, r)
	if err == nil && (got.Alive() || got.Ended() && got.ExitCode == 0) {
		err = fmt.Errorf("it looks like a run: %+v", got)
	}
	return err
}

func noImage(ctx context.Context, c *check) error {
	if img, err := c.Resolve(ctx, "pinfold.invalid/no-such-image@sha256:"+digest([]byte(c.subject.Unique))); err == nil {
		return fmt.Errorf("it has the ID %s", img.ID)
	}
	img, err := c.Resolve(ctx, c.subject.Run("").Image)
	if err == nil && img.ID != c.subject.Run("").Image {
		err = fmt.Errorf("an image's ID names the image %s", img.ID)
	}
	return err
}

func sameIdentity(ctx context.Context, c *check) error {
	first, err := c.Info(ctx)
	if err != nil {
		return err
	}
	again, err := c.Info(ctx)
	switch {
	case err != nil:
		return err
	case first.Identity == "" || first.Identity != again.Identity || first.Provider != c.Name():
		return fmt.Errorf("it is %q, then %q", first.Identity, again.Identity)
	}
	return nil
}
