package main

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/bwrap"
	"pinfold/event"
	"pinfold/guard"
	"pinfold/plan"
	"pinfold/policy"
)

// outcome collects what a launch's result says, from the first flag to the
// last byte. A nil one collects nothing.
type outcome struct {
	sink   *resultSink // nil where nobody wants a result
	result plan.Result
	began  time.Time // of the phase under way
	// timeout is that of --timeout, which no plan has; zero for none.
	timeout time.Duration

	mu       sync.Mutex
	up, down int64
	flows    bool
}

// newOutcome begins with the first phase.
func newOutcome(f *wrapFlags) *outcome {
	tier := cmp.Or(f.tier, string(policy.TierProcess))
	out := &outcome{result: plan.Result{Version: plan.ResultVersion, Tier: tier}}
	out.result.Owner = guard.Owner{Execution: f.execution, Segment: f.segment}
	if f.result != "" && f.checkResult() == nil {
		out.sink = &resultSink{spec: f.result, workspace: f.workspaceNow()}
	}
	out.enter(plan.PhasePlan)
	return out
}

// enter ends the phase under way and begins another.
func (o *outcome) enter(phase string) {
	if o == nil {
		return
	}
	now := time.Now()
	o.leave(now)
	o.result.Phase, o.began = phase, now
}

func (o *outcome) leave(now time.Time) {
	if o.result.Phase == "" {
		return
	}
	o.result.Phases = append(o.result.Phases, plan.PhaseResult{
		Name: o.result.Phase, Began: o.began.UTC(), DurationMS: milliseconds(now.Sub(o.began)),
	})
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// planned notes what the launch is, once that is decided.
func (o *outcome) planned(g *guarded) {
	if o.sink == nil {
		return
	}
	pl := g.launch.planned()
	if digest, err := pl.Digest(); err == nil { // one that has none can't be pinned, and so won't run
		o.result.Digest = digest
	}
	o.result.Backend, o.result.Layers, o.result.Tier = pl.Backend, pl.Layers, string(g.grant.Tier())
	list := make([]plan.LimitResult, 0, len(pl.Limits)+1)
	for _, l := range pl.Limits {
		list = append(list, plan.LimitResult{Name: l.Name, Value: l.Value})
	}
	o.result.Limits = o.inForce(list)
}

// ended notes how the command ended.
func (o *outcome) ended(e bwrap.Exit) {
	o.result.Exit, o.result.Reason, o.result.Stop = e.Code, string(e.Reason), e.Stop
	if e.Signal != 0 {
		o.result.Signal = unix.SignalName(e.Signal)
	}
}

// used notes what the command cost.
func (o *outcome) used(p running) {
	u := p.Usage()
	o.result.Usage, o.result.Limits = &u, o.inForce(p.Limits())
}

// inForce are the limits of a plan with the timeout that holds: the flag's
// where that is the shorter one, or the only one. It was hit if a timeout ended
// the run, and that of silence wasn't.
func (o *outcome) inForce(list []plan.LimitResult) []plan.LimitResult {
	var out, last []plan.LimitResult
	timeout, silent := o.timeout, false
	for _, l := range list {
		switch l.Name {
		case "timeout":
			if d, _ := time.ParseDuration(l.Value); timeout == 0 || d < timeout {
				timeout = d
			}
		case "idle_timeout":
			last, silent = append(last, l), l.Hits > 0
		default:
			out = append(out, l)
		}
	}
	if timeout > 0 {
		l := plan.LimitResult{Name: "timeout", Value: timeout.String()}
		if o.result.Reason == string(bwrap.Timeout) && !silent {
			l.Hits = 1
		}
		out = append(out, l)
	}
	return append(out, last...)
}

// notRun notes a command that didn't run though nothing was refused.
func (o *outcome) notRun(n *bwrap.NotRunError) {
	o.ended(n.Exit)
	o.result.NotRun = &plan.NotRun{Code: notRunCode(n.Exit), Why: n.Why}
	o.result.Limits = o.inForce(o.result.Limits)
}

// blocked notes what was denied.
func (o *outcome) blocked(s *event.Summary) {
	for _, b := range s.Blocked() {
		o.result.Blocked = append(o.result.Blocked, plan.BlockedResult{Target: b.Target, Reason: b.Reason, Count: b.Count, Allow: b.Hint})
	}
	o.result.MoreBlocked = s.More()
}

// Emit counts the bytes of each flow; it is an [event.Sink].
func (o *outcome) Emit(e event.Event) {
	if e.Kind != event.Network {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.up, o.down = o.up+e.Up, o.down+e.Down
}

// failed notes why nothing ran.
func (o *outcome) failed(err error) {
	var usage *usageError
	var code exitCode
	var early *interruption
	switch {
	case err == nil || errors.As(err, &code):
		return // noted already
	case errors.As(err, &early):
		o.ended(bwrap.Exit{Code: early.ExitCode(), Signal: early.signal, Reason: bwrap.Interrupted})
		o.result.NotRun = &plan.NotRun{Code: "not_run", Why: early.Error()}
		return
	case errors.As(err, &usage):
		o.result.Refusal = &policy.Refusal{Reason: "usage", Code: "bad_usage", Why: usage.why, Fix: usage.fix}
	default:
		o.result.Refusal = asRefusal(err)
	}
	o.result.Exit, o.result.Reason = exitRefused, string(bwrap.Refused)
	if o.result.Refusal.Reason == policy.Unavailable {
		o.result.Reason = string(bwrap.Unavailable)
	}
}

// open makes sure that the result can be written, before anything runs.
func (o *outcome) open(g *guard.Grant) error {
	if o.sink == nil {
		return nil
	}
	err := o.sink.open(reachOf(g))
	if err == nil {
		return nil
	}
	spec := o.sink.spec
	o.sink = nil // the refusal says that there will be none
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "result_unwritable", Subject: spec, Err: err,
		Why: fmt.Sprintf("cannot write the result to %q: %v", spec, cause(err)),
		Fix: "name a file outside everything that the command may write, or fd:N with N open for writing",
	}
}

// finish writes the result. Whoever waits for one must learn that there is
// none, so --quiet doesn't hide that.
func (o *outcome) finish(p *program, err error) error {
	if o.sink == nil {
		return err
	}
	o.failed(err)
	o.leave(time.Now())
	if o.flows {
		o.result.Network = &plan.TrafficResult{Up: o.up, Down: o.down}
	}
	text, werr := o.result.Encode()
	if werr == nil {
		werr = o.sink.write(text)
	}
	if werr != nil {
		p.complain("cannot write the result to %q: %v", o.sink.spec, werr)
	}
	return err
}
