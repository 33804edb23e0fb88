package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"pinfold/bwrap"
	"pinfold/event"
	"pinfold/guard/persist"
	"pinfold/plan"
)

// wrapFlags are the flags of wrap alone.
type wrapFlags struct {
	launchFlags
	timeout, grace      string
	events, eventsLevel string
	result              string
	capture             bool
}

func (p *program) wrapCommand() *cli.Command {
	f := &wrapFlags{}
	return &cli.Command{
		Name:      "wrap",
		Usage:     "run a command inside the boundary",
		ArgsUsage: "-- CMD [ARGS...]",
		Flags: append(f.flags(),
			one("timeout", "stop the command after `D` (30s, 20m, 2h) and exit 124", &f.timeout),
			one("grace", "wait `D` between asking and killing (default: 10s)", &f.grace),
			one("events", "write events as JSON lines to `FILE|fd:N`", &f.events),
			one("events-level", "events to write: `denied|all`", &f.eventsLevel),
			one("result", "write how it ended as one JSON object to `FILE|fd:N`", &f.result),
			yes("capture", "put the command's output into the result, not through", &f.capture),
			yes("quiet", "print no notices and no closing line", &p.quiet),
		),
		Action: func(c *cli.Context) error { return p.wrap(c, f) },
	}
}

// commandOf is what is to run.
func commandOf(c *cli.Context) ([]string, error) {
	argv := c.Args().Slice()
	if len(argv) == 0 || argv[0] == "" {
		return nil, &usageError{
			why: "cannot run anything: no command was given",
			fix: fmt.Sprintf("%s [flags] -- CMD [ARGS...]", c.Command.HelpName),
		}
	}
	return argv, nil
}

// duration reads a flag such as --timeout; "" is zero.
func duration(flag, s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, &usageError{
			why: fmt.Sprintf("cannot use %s %q: it is no duration above zero", flag, s),
			fix: fmt.Sprintf("write a number and a unit: %s 90s, %s 20m", flag, flag),
		}
	}
	return d, nil
}

// wrap is one launch from its flags to its exit code.
func (p *program) wrap(c *cli.Context, f *wrapFlags) error {
	o, err := f.runOptions()
	out := newOutcome(f)
	argv, noCommand := commandOf(c)
	if err = cmp.Or(noCommand, err); err == nil {
		err = p.diagnosed(c.Context, p.wrapCommandLine(c.Context, f, argv, o, out))
	}
	return out.finish(p, err)
}

// wrapCommandLine is a launch whose command line has been read.
func (p *program) wrapCommandLine(ctx context.Context, f *wrapFlags, argv []string, o runOptions, out *outcome) error {
	// A reader of our standard error that has gone away must not end the
	// supervisor, and the command with it.
	taken := notifySoon(make(chan os.Signal, 1), syscall.SIGPIPE)
	o.started = theCollector.collectLate()
	defer o.started()
	l, err := p.prepare(&f.launchFlags, argv)
	<-taken
	l.outcome = out
	if err == nil {
		p.reclaim(l.request.State)
		err = p.launch(ctx, l, o)
	}
	if cleanup := l.removeFresh(err); cleanup != nil {
		p.complain("cannot remove what was made for this launch: %v", cleanup)
	}
	return err
}

// reclaim takes away what killed runs left in the file system, before the
// guard sees it there. What can't be taken away is no reason not to run.
func (p *program) reclaim(state string) {
	if _, err := bwrap.Reclaim(state); err != nil {
		p.notice("cannot remove what an earlier run left behind: %v", err)
	}
}

// runOptions are the flags of wrap, read.
type runOptions struct {
	timeout, grace time.Duration
	events         string
	level          event.Level
	capture        bool
	// started is called once the command runs, or can't; again is no harm.
	started func()
}

func (f *wrapFlags) runOptions() (runOptions, error) {
	o := runOptions{events: f.events, level: event.Level(f.eventsLevel), capture: f.capture}
	if err := f.checkResult(); err != nil {
		return o, err
	}
	switch o.level {
	case "", event.LevelDenied, event.LevelAll:
	default:
		return o, &usageError{
			why: fmt.Sprintf("cannot use --events-level %q: there is no such level", f.eventsLevel),
			fix: "the levels are denied and all",
		}
	}
	var err error
	if o.timeout, err = duration("--timeout", f.timeout); err != nil {
		return o, err
	}
	o.grace, err = duration("--grace", f.grace)
	return o, err
}

// checkResult keeps the result apart from what the command and pinfold say.
func (f *wrapFlags) checkResult() error {
	number, _ := descriptorNumber(f.result)
	switch {
	case f.capture && f.result == "":
		return &usageError{why: "cannot use --capture: there is no result to put the output into", fix: "add --result FILE|fd:N"}
	case number == "1" && !f.capture:
		return &usageError{
			why: "cannot write the result to standard output: the command's own output goes there",
			fix: "add --capture, or name a file or another descriptor",
		}
	case number == "2":
		return &usageError{
			why: "cannot write the result to standard error: pinfold's own words go there",
			fix: "name a file or another descriptor",
		}
	case sameOutput(f.events, f.result):
		return &usageError{
			why: fmt.Sprintf("cannot write both events and the result to one file: --events %q and --result %q are the same", f.events, f.result),
			fix: "give each a file or a descriptor of its own",
		}
	}
	return nil
}

// workspaceNow is the workspace before anything is said about it, canonical;
// "" where there is none yet.
func (f *wrapFlags) workspaceNow() string {
	if f.workspace == "tmp" {
		return ""
	}
	abs, err := filepath.Abs(f.workspace) // the current directory where none is named
	if err != nil {
		return ""
	}
	dir, _, err := wayTo(abs)
	if err != nil {
		return ""
	}
	return dir
}

// launch asks the guard, starts the command and waits for it.
func (p *program) launch(ctx context.Context, l *prepared, o runOptions) error {
	if err := reapFirst(ctx, l.request.State); err != nil {
		p.notice("cannot clear what an earlier launch left behind: %v", err)
	}
	later := persist.Begin(l.request.Workspace)
	mounts := bwrap.WatchMounts()
	defer mounts.Close()
	done := p.during("looking through what the command may write")
	g, err := l.guardUnlessInterrupted(ctx)
	done()
	if err != nil {
		return err
	}
	defer func() { g.look.End(); g.grant.Close() }() // whichever it is by then
	l.outcome.timeout = o.timeout
	l.outcome.planned(g)
	l.outcome.enter(plan.PhaseSetup)
	if err := l.outcome.open(g.grant); err != nil {
		return err
	}
	r, err := p.newRun(l, g, o)
	if err != nil {
		return err
	}
	r.again = again{mounts: mounts, prepared: l, guarded: g, places: placesOf(g.grant)}
	r.laterState = laterState{later, g.grant.Paths().Workspace, grantedTrees(g.grant, l.fresh), g.grant.Directories()}
	r.announce(g.grant.Withheld())
	later.Began()
	err = r.run(ctx)
	r.reportLater()
	late := r.close()
	if l.request.Record == "" && pruneNow(r.name) {
		late = errors.Join(late, pruneRecords(r.state, keptRecords))
	}
	if late != nil {
		p.complain("%v", late)
	}
	return err
}

// announce says once which variables were withheld: names only.
func (r *oneRun) announce(names []string) {
	if len(names) == 0 {
		return
	}
	r.p.notice("withheld from the command: %s (list in env.secrets to pass on)", strings.Join(names, " "))
	if r.events == nil {
		return
	}
	for _, name := range names {
		r.events.Emit(event.Event{Kind: event.Env, Action: event.Withheld, Target: name, Rule: "env.secrets"})
	}
}
