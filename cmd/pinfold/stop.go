package main

import (
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"pinfold/bwrap"
	"pinfold/recover"
)

// stopGrace is how long a stop waits between SIGTERM and SIGKILL.
const stopGrace = 10 * time.Second

func (p *program) stopCommand() *cli.Command {
	f := &recordFlags{}
	var grace string
	return &cli.Command{
		Name:  "stop",
		Usage: "end a recorded launch, and return once nothing of it runs",
		Flags: f.flags(one("grace", "wait `D` between asking and killing (default: 10s)", &grace)),
		Action: func(c *cli.Context) error {
			if err := f.check(c, 0, "pinfold stop --record DIR"); err != nil {
				return err
			}
			d, err := duration("--grace", grace)
			if err != nil {
				return err
			}
			if d == 0 {
				d = stopGrace
			}
			return p.stop(c, f, d)
		},
	}
}

func (p *program) stop(c *cli.Context, f *recordFlags, grace time.Duration) error {
	run, err := recover.OpenStarted(c.Context, f.record)
	if err != nil {
		return err
	}
	defer run.Close()
	done, err := run.Stop(c.Context, grace)
	if err != nil {
		return err
	}
	// What a supervisor would have taken away on the host that was killed, now or
	// before, is gone through again.
	if state := run.StateDir(); state != "" {
		if _, err := bwrap.Reclaim(state); err != nil {
			return err
		}
	}
	return p.print(f.json, done, stopText(done))
}

func stopText(s recover.Stopped) string {
	how := "had ended"
	switch {
	case s.State == recover.NotStarted:
		how = "was never started"
	case s.Sent != "":
		how = "was stopped with SIG" + map[string]string{"term": "TERM", "kill": "KILL"}[s.Sent]
	}
	if s.Exit != nil {
		how += fmt.Sprintf(" (%s, exit code %d)", s.Exit.Reason, s.Exit.Code)
	}
	return "the launch " + how
}
