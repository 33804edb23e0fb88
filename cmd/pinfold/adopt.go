package main

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"pinfold/recover"
)

// The exit codes of adopt: 0 is adoptable, exitRefused couldn't tell.
const exitNotAdoptable = 3

// adoptFlags are the flags of adopt.
type adoptFlags struct {
	record, parent, digest string
	json                   bool
}

func (p *program) adoptCommand() *cli.Command {
	f := &adoptFlags{}
	return &cli.Command{
		Name:  "adopt",
		Usage: "prove that a running launch is the recorded one, inside the recorded boundary",
		Flags: []cli.Flag{
			one("record", "the launch's record is in `DIR`", &f.record),
			one("parent", "the process `PID` started it and still runs", &f.parent),
			one("digest", "its plan has the digest `SHA`", &f.digest),
			yes("json", "accepted for symmetry: the verdict always is JSON", &f.json),
		},
		Action: func(c *cli.Context) error { return p.adopt(c, f) },
	}
}

func (p *program) adopt(c *cli.Context, f *adoptFlags) error {
	parent, err := positive("--parent", f.parent)
	if err == nil && (f.record == "" || parent == 0 || c.Args().Present()) {
		err = &usageError{why: "cannot prove anything: adopt needs --record DIR and --parent PID", fix: "pinfold adopt --record DIR --parent PID"}
	}
	if err != nil {
		return err
	}
	v, err := recover.ProveLaunch(c.Context, recover.Claim{Record: f.record, Parent: parent, Digest: f.digest})
	if errors.Is(err, recover.ErrUnclear) {
		p.printFailure(err)
		return exitCode(exitRefused)
	}
	if err != nil {
		return err
	}
	out := json.NewEncoder(p.Out)
	out.SetIndent("", "  ")
	if err := out.Encode(v); err != nil {
		return fmt.Errorf("cannot print the verdict: %w", err)
	}
	if !v.Adoptable {
		return exitCode(exitNotAdoptable)
	}
	return nil
}
