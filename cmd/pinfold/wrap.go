package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"pinfold/event"
)

// wrapFlags are the flags of wrap alone.
type wrapFlags struct {
	launchFlags
	timeout, grace      string
	events, eventsLevel string
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
	argv, err := commandOf(c)
	if err != nil {
		return err
	}
	o, err := f.runOptions()
	if err != nil {
		return err
	}
	// A reader of our standard error that has gone away must not end the
	// supervisor, and the command with it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	o.started = collectLate()
	defer o.started()
	l, err := p.prepare(&f.launchFlags, argv)
	if err == nil {
		err = p.launch(c.Context, l, o)
	}
	if cleanup := l.removeFresh(); cleanup != nil {
		p.notice("cannot remove what was made for this launch: %v", cleanup)
	}
	return err
}

// runOptions are the flags of wrap, read.
type runOptions struct {
	timeout, grace time.Duration
	events         string
	level          event.Level
	// started is called once the command runs, or can't; again is no harm.
	started func()
}

func (f *wrapFlags) runOptions() (runOptions, error) {
	o := runOptions{events: f.events, level: event.Level(f.eventsLevel)}
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

// launch asks the guard, starts the command and waits for it.
func (p *program) launch(ctx context.Context, l *prepared, o runOptions) error {
	g, err := l.guardUnlessInterrupted(ctx)
	if err != nil {
		return err
	}
	defer g.grant.Close()
	r, err := p.newRun(l, g, o)
	if err != nil {
		return err
	}
	r.announce(g.grant.Withheld())
	err = r.run(ctx)
	if late := r.close(); late != nil {
		p.notice("%v", late)
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
