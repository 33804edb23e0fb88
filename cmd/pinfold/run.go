package main

import (
	"context"
	"errors"
	"time"

	"pinfold/bwrap"
	"pinfold/egress"
	"pinfold/event"
	"pinfold/plan"
	"pinfold/policy"
)

// oneRun is what one started launch has open.
type oneRun struct {
	p       *program
	launch  boundary
	network policy.Network
	parent  *egress.Upstream
	options runOptions
	state   string
	fresh   []bwrap.Fresh
	name    string
	record  *plan.Record
	summary event.Summary
	events  *event.Writer
	// eventsPath is where events go, if that is a file.
	eventsPath string
	closers    []func() error
	outcome    *outcome
	capture    *capture
	again      again
	laterState
}

// newRun opens what a run needs beside its boundary: the record, and where
// events go.
func (p *program) newRun(l *prepared, g *guarded, o runOptions) (*oneRun, error) {
	r := &oneRun{
		p: p, launch: g.launch, network: g.grant.Network(), parent: g.parent, options: o,
		state: l.request.State, fresh: l.fresh, name: runName(time.Now()),
		outcome: l.outcome,
	}
	if err := r.openEvents(reachOf(g.grant)); err != nil {
		return nil, err
	}
	err := l.refuseKept(g.grant)
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	if r.record, err = openRecord(l.request.Record, r.state, r.name); err != nil {
		return nil, errors.Join(err, r.close())
	}
	r.closers = append(r.closers, r.record.Close)
	if err := r.note(l.request.Record); err != nil {
		return nil, errors.Join(err, r.close())
	}
	r.outcome.result.Run, r.outcome.result.Record = r.name, r.record.Path()
	if o.capture {
		r.capture, err = newCapture()
	}
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// run starts the command and answers with its exit code.
func (r *oneRun) run(ctx context.Context) error {
	if r.options.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.options.timeout)
		defer cancel()
	}
	process, err := r.start(ctx)
	r.options.started()
	if err != nil {
		return errors.Join(r.notStarted(err), r.capture.abandon())
	}
	r.outcome.enter(plan.PhaseRun)
	r.capture.start()
	exit, err := process.Wait()
	if exit.Unread {
		r.p.saveWords()
	}
	r.capture.finish(&r.outcome.result)
	r.outcome.ended(exit)
	r.outcome.used(process)
	r.outcome.blocked(&r.summary)
	if err != nil {
		r.p.complain("after the command had ended: %v", err)
	}
	if line := r.summary.Line(); line != "" {
		r.p.notice("%s", line)
	}
	return exitCode(exit.Code)
}

func (r *oneRun) startOptions() bwrap.StartOptions {
	sink := event.Fan(&r.summary, r.outcome)
	r.outcome.flows = len(r.network.Allow) > 0
	if r.events != nil {
		sink = event.Fan(sink, r.events)
	}
	return bwrap.StartOptions{
		Streams: r.streams(),
		Egress:  func() (bwrap.Egress, error) { return r.proxy(sink) },
		Record:  r.record, Fresh: r.fresh, Events: sink, Run: r.name,
		AllFlows: r.options.level == event.LevelAll,
		Grace:    r.options.grace, Forward: true, State: r.state,
		Notice: func(s string) { r.p.notice("%s", s) }, Lost: func(s string) { r.p.complain("%s", s) }, Again: r.mayTryAgain,
	}
}

// streams are what the command reads and writes.
func (r *oneRun) streams() bwrap.Streams {
	s := bwrap.Streams{Stdin: r.p.In, Stdout: r.p.Out, Stderr: r.p.Err}
	if r.capture != nil {
		s.Stdout, s.Stderr = r.capture.streams[0].write, r.capture.streams[1].write
	}
	return s
}

// proxy serves what the policy lets out.
func (r *oneRun) proxy(sink event.Sink) (bwrap.Egress, error) {
	d := egress.NewDecider(r.network)
	s := &egress.Server{
		Decider: d, Dialer: &egress.Dialer{Decider: d, Upstream: r.parent, Budget: egress.NewBudget(r.network)},
		Events: sink, AllFlows: r.options.level == event.LevelAll || r.outcome.sink != nil,
	}
	if !r.launch.transparent() {
		return s, nil
	}
	return egress.NewTransparent(s), nil
}

// notStarted reports a command that didn't run. One that can't be executed
// has the shell's codes: nothing was refused.
func (r *oneRun) notStarted(err error) error {
	var n *bwrap.NotRunError
	if !errors.As(err, &n) {
		return err
	}
	r.outcome.notRun(n)
	r.p.printNotRun(n.Exit, n.Why)
	return exitCode(n.ExitCode())
}

func (r *oneRun) close() error {
	var errs []error
	for i := len(r.closers) - 1; i >= 0; i-- {
		errs = append(errs, r.closers[i]())
	}
	return errors.Join(errs...)
}
