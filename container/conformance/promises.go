package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"pinfold/container"
)

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
	// It takes its time, so that one who only asked finds it running.
	r, err := c.run(ctx, "a", "trap 'sleep 2; exit 5' TERM; while :; do sleep 0.05; done")
	if err != nil {
		return err
	}
	if err := c.Stop(ctx, r, 20*time.Second); err != nil {
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

// noProgram is an entry point that no image has.
const noProgram = "/no/such/program"

func failsToStart(ctx context.Context, c *check) error {
	s := c.subject.Run("")
	s.Entrypoint = []string{noProgram}
	s.Labels = c.labels("a")
	r, err := c.Create(ctx, s)
	if err != nil {
		return c.refusedEarly(ctx, err) // an engine may see it by then
	}
	c.made = append(c.made, r)
	err = c.Start(ctx, r)
	if err == nil {
		return errors.New("a program that isn't there can be started")
	}
	if err := namesProgram(err); err != nil {
		return err
	}
	got, err := c.Inspect(ctx, r)
	if err == nil && (got.Alive() || got.Ended() && got.ExitCode == 0) {
		err = fmt.Errorf("it looks like a run: %+v", got)
	}
	return err
}

// refusedEarly takes a failed creation for one that has seen the program to be
// missing: it says so, and nothing was made.
func (c *check) refusedEarly(ctx context.Context, failed error) error {
	if err := namesProgram(failed); err != nil {
		return err
	}
	left, err := c.List(ctx, c.labels("a"))
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("it wasn't created, and left %d containers", len(left))
	}
	return err
}

// namesProgram tells a failure that is the program's from any other.
func namesProgram(failed error) error {
	if strings.Contains(failed.Error(), noProgram) {
		return nil
	}
	return fmt.Errorf("it fails for another reason than the missing program: %w", failed)
}

// missingSource: engines make a missing directory for some forms of a bind, as
// root, and what was a refusal becomes an empty grant.
func missingSource(ctx context.Context, c *check) error {
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	source := filepath.Join(dir, "missing", "x")
	s := c.subject.Run("exit 0")
	s.Labels = c.labels("a")
	s.Mounts = append(slices.Clone(s.Mounts), container.Mount{Source: source, Target: "/missing"})
	r, err := c.Create(ctx, s)
	if err == nil {
		c.made = append(c.made, r)
		err = c.Start(ctx, r)
	}
	if err == nil {
		return errors.New("it runs")
	}
	if _, err := os.Lstat(filepath.Dir(source)); err == nil {
		return fmt.Errorf("%q was made", filepath.Dir(source))
	}
	return nil
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
