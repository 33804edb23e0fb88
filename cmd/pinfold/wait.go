package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"pinfold/recover"
)

func (p *program) waitCommand() *cli.Command {
	f := &recordFlags{}
	return &cli.Command{
		Name:  "wait",
		Usage: "wait for the end of a recorded launch, and exit as its command did",
		Flags: f.flags(),
		Action: func(c *cli.Context) error {
			if err := f.check(c, 0, "pinfold wait --record DIR"); err != nil {
				return err
			}
			return p.wait(c, f)
		},
	}
}

// wait exits with the recorded code. Its own failures are exitRefused: they
// must not look like the command's.
func (p *program) wait(c *cli.Context, f *recordFlags) error {
	run, err := recover.OpenStarted(c.Context, f.record)
	if err != nil {
		return err
	}
	defer run.Close()
	if run.State() == recover.NotStarted {
		return fmt.Errorf("cannot wait for %q: nothing was started, and nobody is about to", f.record)
	}
	exit, err := run.Wait(c.Context)
	if err != nil {
		return fmt.Errorf("cannot wait for %q: %w", f.record, err)
	}
	if err := p.print(f.json, exit, ""); err != nil {
		return err
	}
	return exitCode(exit.Code)
}
