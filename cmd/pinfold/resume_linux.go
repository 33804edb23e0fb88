package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"pinfold/bwrap"
	"pinfold/container/engine"
	"pinfold/container/launch"
	"pinfold/event"
	"pinfold/guard"
	"pinfold/plan"
	"pinfold/policy"
)

// resumeFlags are the flags of resume alone.
type resumeFlags struct {
	record, grace, events, level string
}

func (p *program) resumeCommand() *cli.Command {
	f := &resumeFlags{}
	return &cli.Command{
		Name:  "resume",
		Usage: "take over a container whose supervisor has gone, and exit as its command does",
		Flags: []cli.Flag{
			one("record", "the launch's record is in `DIR`", &f.record),
			one("grace", "wait `D` between asking and killing (default: 10s)", &f.grace),
			one("events", "write events as JSON lines to `fd:N`", &f.events),
			one("events-level", "events to write: `denied|all`", &f.level),
			yes("quiet", "print no notices and no closing line", &p.quiet),
		},
		Action: func(c *cli.Context) error { return p.resume(c, f) },
	}
}

func (p *program) resume(c *cli.Context, f *resumeFlags) error {
	rec := &recordFlags{record: f.record}
	if err := rec.check(c, 0, "pinfold resume --record DIR"); err != nil {
		return err
	}
	if _, isFD := strings.CutPrefix(f.events, "fd:"); f.events != "" && !isFD {
		return &usageError{
			why: fmt.Sprintf("cannot write events to %q: what the command may write isn't looked at again", f.events),
			fix: "open the file and name its descriptor: --events fd:3 3>>FILE",
		}
	}
	grace, err := duration("--grace", f.grace)
	if err != nil {
		return err
	}
	s, err := plan.ReadRecord(rec.record)
	if err != nil {
		return err
	}
	if err := canResume(s); err != nil {
		return err
	}
	return p.resumeRun(c.Context, s, runOptions{grace: grace, events: f.events, level: event.Level(f.level), started: func() {}})
}

func canResume(s *plan.Stored) error {
	why := ""
	switch {
	case s.Container == nil:
		why = "it is of no container; nothing in the process tier outlives its supervisor"
	case s.Exit != nil:
		why = fmt.Sprintf("it has ended (%s, exit code %d)", s.Exit.Reason, s.Exit.Code)
	case s.Root == nil:
		why = "its command was never started"
	default:
		return nil
	}
	return &policy.Refusal{
		Reason: policy.Denied, Code: "not_resumable", Subject: s.Path,
		Why: fmt.Sprintf("cannot take over the launch of %q: %s", s.Path, why), Fix: "pinfold ps shows what runs",
	}
}

// resumeRun supervises the launch to its end.
func (p *program) resumeRun(ctx context.Context, s *plan.Stored, o runOptions) error {
	record, err := plan.ResumeRecord(s.Path)
	if err != nil {
		return err
	}
	// Until then another may have taken it over, and seen its end.
	if s, err = plan.ReadRecord(s.Path); err == nil {
		err = canResume(s)
	}
	if err != nil {
		return errors.Join(err, record.Close())
	}
	serving, err := launch.ReadServing(launch.DirsAt(s.Container.Dirs))
	if err != nil {
		return errors.Join(err, record.Close())
	}
	e, err := engine.Connect(ctx, s.Container.Provider, s.Container.Endpoint)
	if err != nil {
		return errors.Join(err, record.Close())
	}
	e.Remember(s.Plan.Paths.State)
	r := &oneRun{
		p: p, launch: resumedBoundary{engine: e, stored: s, watches: serving.Watches}, network: serving.Network, options: o,
		state: s.Plan.Paths.State, name: serving.Run, record: record, outcome: newOutcome(&wrapFlags{}),
		closers: []func() error{record.Close},
	}
	err = r.openEvents(reachOfMounts(s.Plan.Mounts))
	if err == nil {
		err = r.run(ctx)
	}
	if late := r.close(); late != nil {
		p.complain("%v", late)
	}
	return err
}

// resumedBoundary is a container that runs already.
type resumedBoundary struct {
	engine  *engine.Engine
	stored  *plan.Stored
	watches []guard.Watch
}

func (b resumedBoundary) planned() *plan.Plan { return b.stored.Plan }

func (b resumedBoundary) shell() (string, error) {
	return "", errors.New("internal error: it runs already")
}

func (b resumedBoundary) transparent() bool { return false }

func (b resumedBoundary) start(ctx context.Context, r *oneRun) (running, error) {
	o := r.startOptions()
	began := time.Now()
	p, err := launch.Resume(ctx, launch.Options{
		Provider: b.engine, Owner: b.stored.Plan.Owner, Egress: func() (launch.Egress, error) { return o.Egress() },
		Record: o.Record, Events: o.Events, AllFlows: o.AllFlows, Run: o.Run, Grace: o.Grace, Forward: o.Forward,
		State: o.State, Notice: o.Notice, Lost: o.Lost, Watch: watchNames(o, b.watches), Listening: engine.Listening,
	}, b.stored)
	if err != nil {
		return nil, errors.Join(err, b.engine.Close())
	}
	r.p.notice("took over container %.12s after %v", p.Ref().ID, time.Since(began).Round(time.Millisecond))
	return containerProcess{p, b.engine}, nil
}

// containerProcess is a container's command as the rest of this program knows
// one.
type containerProcess struct {
	*launch.Process
	engine *engine.Engine
}

// Wait waits for the end, and lets the engine go.
func (p containerProcess) Wait() (bwrap.Exit, error) {
	e, err := p.Process.Wait()
	return containerExit(e), errors.Join(err, p.engine.Close())
}

func containerExit(e launch.Exit) bwrap.Exit {
	return bwrap.Exit{Code: e.Code, Signal: e.Signal, Reason: bwrap.Reason(e.Reason), Stop: e.Stop}
}
