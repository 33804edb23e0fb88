package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"pinfold/bwrap"
	"pinfold/event"
	"pinfold/guard"
	"pinfold/plan"
	"pinfold/policy"
)

// maxAgain bounds how often a launch is made anew.
const maxAgain = 3

// again makes a launch anew that bubblewrap gave up while the host changed. It
// binds mounts one by one as its copy of the table has them, and one that is
// unmounted just then (a container that ends on the host) fails it. So does a
// name that was there when the guard looked, and isn't any more: an editor's,
// or a guarded one that another launch had made and has taken away. What
// bubblewrap prints isn't looked at, but the host. The guard looks at
// everything again, since the change may have been about what the launch grants
// or denies. What it was given by name has to be what it was.
type again struct {
	mounts   *bwrap.MountTable // watched since before the guard looked
	prepared *prepared
	guarded  *guarded
	places   places // of the first look
	made     int    // how often the launch was made anew
	changed  string // the path that isn't what it was
	moved    bool   // the host's mounts have changed
	plain    bool   // the stub needs a file
	whole    bool   // bubblewrap has to mount everything
	at       bwrap.Failure
	wanted   bool // once more
}

// start starts the command, at a second or third attempt where that may help.
func (r *oneRun) start(ctx context.Context) (running, error) {
	for {
		process, err := r.launch.start(ctx, r)
		r.endLook() // its leases are taken
		if !r.again.wanted {
			return process, err
		}
		r.again.wanted = false
		if err = r.anew(ctx, err); err != nil {
			return nil, err
		}
	}
}

// endLook lets mount points go that the launch doesn't need. Who takes a run
// over has no guard, and looks at nothing.
func (r *oneRun) endLook() {
	if r.again.guarded == nil {
		return
	}
	if err := r.again.guarded.look.End(); err != nil {
		r.p.notice("cannot remove what an earlier run left behind: %v", err)
	}
}

// mayTryAgain is asked once a launch has failed, before its record says so. A
// security module may forbid to run the stub without a file, or to mount inside
// from outside: without that it is tried once.
func (r *oneRun) mayTryAgain(at bwrap.Failure) bool {
	if r.again.made >= maxAgain {
		return false
	}
	r.again.changed = r.again.guarded.grant.Changed()
	r.again.moved = r.again.mounts.Changed()
	plain := at == bwrap.CannotRun && !r.again.plain
	whole := at == bwrap.CannotMount && !r.again.whole
	if !r.again.moved && r.again.changed == "" && !plain && !whole {
		return false
	}
	if sent, err := r.record.Stop(); err != nil || sent != "" {
		return false // somebody else has ended it
	}
	r.again.plain, r.again.whole = r.again.plain || plain, r.again.whole || whole
	r.again.prepared.plainStub, r.again.prepared.whole = r.again.plain, r.again.whole
	r.again.at = at
	r.again.made++
	r.again.wanted = true
	return true
}

// anew makes the launch anew, up to its start. failed is why the last one
// failed: with more in it than that, there are traces left.
func (r *oneRun) anew(ctx context.Context, failed error) error {
	err := failed
	if _, clean := failed.(*policy.Refusal); clean { //nolint:errorlint // what is joined to it is the point
		err = r.guardAnew(ctx)
	}
	if err != nil {
		return errors.Join(err, r.record.WriteExit(plan.Exit{Time: time.Now(), Code: exitRefused, Reason: endOf(err)}))
	}
	r.outcome.result.Attempts = r.again.made + 1
	what, target := r.again.cause()
	r.p.notice("the launch failed %s: starting again", what)
	if r.events != nil {
		r.events.Emit(event.Event{Kind: event.Boundary, Action: event.Noticed, Target: target, Reason: "launched_again"})
	}
	return nil
}

// cause is why the launch is made anew: in words, and as an event's target.
func (a *again) cause() (what, target string) {
	switch {
	case a.changed != "":
		return "while " + strconv.Quote(a.changed) + " changed", a.changed
	case a.moved:
		return "while the host's mounts changed", "mounts"
	}
	if a.at == bwrap.CannotMount {
		return "since mounts can't be made inside from outside", "covers"
	}
	return "when it was to run a program that has no file", "stub"
}

// guardAnew replaces the launch by one that the guard has let through now.
func (r *oneRun) guardAnew(ctx context.Context) error {
	r.outcome.enter(plan.PhasePlan)
	g, err := r.again.prepared.guardUnlessInterrupted(ctx)
	if err != nil {
		return err
	}
	err = errors.Join(placesOf(g.grant).changed(r.again.places), r.checkOutputs(g.grant), r.again.prepared.refuseKept(g.grant))
	if err == nil {
		err = r.record.SetAside(r.again.made)
	}
	if err != nil {
		return errors.Join(err, g.look.End(), g.grant.Close())
	}
	err = r.again.guarded.grant.Close()
	*r.again.guarded = *g
	r.launch, r.network = g.launch, g.grant.Network()
	r.outcome.planned(g)
	r.outcome.enter(plan.PhaseSetup)
	return err
}

// checkOutputs refuses what was opened for the launch before, where this one
// could write it.
func (r *oneRun) checkOutputs(g *guard.Grant) error {
	paths := map[string]string{"events_unwritable": r.eventsPath}
	if sink := r.outcome.sink; sink != nil {
		paths["result_unwritable"] = sink.path
	}
	for code, path := range paths {
		if path != "" && g.Writable(path) {
			return &policy.Refusal{
				Reason: policy.Unavailable, Code: code, Subject: path,
				Why: fmt.Sprintf("cannot write to %q: the command may write there", path),
				Fix: "name a file outside everything that the command may write, or fd:N with N open for writing",
			}
		}
	}
	return nil
}

// endOf is what a record says of a launch that wasn't made.
func endOf(err error) string {
	var early *interruption
	switch {
	case errors.As(err, &early):
		return string(bwrap.Interrupted)
	case errors.Is(err, policy.ErrDenied):
		return string(bwrap.Refused)
	}
	return string(bwrap.Unavailable)
}
