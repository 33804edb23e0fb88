package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"pinfold/bwrap"
	"pinfold/egress"
	"pinfold/event"
	"pinfold/guard"
	"pinfold/plan"
	"pinfold/policy"
	"pinfold/seatbelt"
)

// seatbeltBoundary is sandbox-exec's.
type seatbeltBoundary struct{ launch *seatbelt.Launch }

func (b seatbeltBoundary) planned() *plan.Plan { return b.launch.Plan }

func (b seatbeltBoundary) shell() (string, error) {
	return "", &usageError{
		why: "cannot print the plan for bwrap: macOS has no bubblewrap",
		fix: "leave --as out; --json has the arguments of sandbox-exec",
	}
}

func (b seatbeltBoundary) transparent() bool { return false }

// start runs the launch. What it says is put in the words that the rest of
// this program has.
func (b seatbeltBoundary) start(ctx context.Context, r *oneRun) (running, error) {
	o := r.startOptions()
	p, err := seatbelt.Start(ctx, b.launch, seatbelt.StartOptions{
		Streams: seatbelt.Streams(o.Streams), Record: o.Record, Fresh: seatbeltFresh(o.Fresh),
		Egress: func(p egress.Password) (seatbelt.Egress, error) { return r.locked(o.Events, &p) },
		Events: o.Events, Violations: r.events != nil || r.outcome.sink != nil,
		Run: o.Run, Grace: o.Grace, Forward: o.Forward, Notice: o.Notice,
	})
	if n, ok := errors.AsType[*seatbelt.NotRunError](err); ok {
		err = &bwrap.NotRunError{Exit: exitOf(n.Exit), Why: n.Why, Err: n.Err}
	}
	if err != nil {
		return nil, err
	}
	return seatbeltProcess{p, b.launch}, nil
}

// locked is the proxy for whoever has the password.
func (r *oneRun) locked(sink event.Sink, p *egress.Password) (seatbelt.Egress, error) {
	e, err := r.proxy(sink)
	if s, ok := e.(*egress.Server); ok {
		s.Password = p
	} else if err == nil {
		err = errors.New("internal error: the proxy takes no password")
	}
	return e, err
}

type seatbeltProcess struct {
	*seatbelt.Process
	launch *seatbelt.Launch
}

func (p seatbeltProcess) Wait() (bwrap.Exit, error) {
	e, err := p.Process.Wait()
	return exitOf(e), err
}

func (p seatbeltProcess) Limits() []plan.LimitResult {
	var out []plan.LimitResult
	for _, l := range p.launch.Plan.Limits {
		out = append(out, plan.LimitResult{Name: l.Name, Value: l.Value})
	}
	return out
}

func exitOf(e seatbelt.Exit) bwrap.Exit {
	return bwrap.Exit{Code: e.Code, Signal: e.Signal, Reason: bwrap.Reason(e.Reason), Stop: e.Stop}
}

func seatbeltFresh(list []bwrap.Fresh) []seatbelt.Fresh {
	out := make([]seatbelt.Fresh, 0, len(list))
	for _, f := range list {
		out = append(out, seatbelt.Fresh(f))
	}
	return out
}

// lookAhead looks at the machine once the guard has looked at the launch:
// there is next to nothing to see.
func (l *prepared) lookAhead(ctx context.Context) func(*guard.Grant) (boundary, error) {
	return func(grant *guard.Grant) (boundary, error) { return l.translate(ctx, grant) }
}

func (l *prepared) translate(ctx context.Context, grant *guard.Grant) (boundary, error) {
	machine, err := seatbelt.Probe()
	if err != nil {
		return nil, err
	}
	inside, err := ownProgram(grant)
	if err != nil {
		return nil, err
	}
	tmp, suffix, err := l.makeTmp(ctx)
	if err != nil {
		return nil, err
	}
	launch, err := seatbelt.Translate(grant, machine, seatbelt.LaunchOptions{
		Umask: l.umask, Tmp: tmp.Path, Suffix: suffix, Inside: inside, Helper: inside, Trustd: l.system.trustd, Root: l.request.UID == 0,
		Fresh: append(seatbeltFresh(l.fresh), tmp),
	})
	if err != nil {
		return nil, err
	}
	return seatbeltBoundary{launch}, nil
}

// ownProgram is this program, by the name that the kernel asks by. The next
// launch runs it outside, so the command must not be able to change it.
func ownProgram(grant *guard.Grant) (string, error) {
	path, err := os.Executable()
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", fmt.Errorf("cannot find this program: %w", err)
	}
	if grant.Writable(path) {
		return "", &policy.Refusal{
			Reason: policy.Denied, Code: "program_writable", Subject: path,
			Why: fmt.Sprintf("cannot use %q: the command could change it, and the next launch runs it outside", path),
			Fix: "install pinfold outside of what is granted for writing",
		}
	}
	return path, nil
}

// systemFlags are the flags of this system alone.
type systemFlags struct{ trustd bool }

func (f *systemFlags) flags() []cli.Flag {
	return []cli.Flag{
		yes("macos-trustd", "let programs ask the system's certificate daemon, as those written in Go do for TLS", &f.trustd),
	}
}

// insideOf is for the program that sandbox-exec runs, which is this one.
func insideOf(args []string) (code int, inside bool) {
	if !seatbelt.IsInside(args) {
		return 0, false
	}
	return seatbelt.Inside(), true
}
