package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"pinfold/bwrap"
	"pinfold/bwrap/cgroup"
	"pinfold/recover"
)

func (p *program) reapCommand() *cli.Command {
	var o recover.ReapOptions
	var older string
	var asJSON bool
	return &cli.Command{
		Name:  "reap",
		Usage: "clear what killed launches left behind",
		Flags: []cli.Flag{
			yes("dry-run", "only say what would be cleared", &o.DryRun),
			one("older-than", "remove the records of launches that ended `D` ago or longer (default: none)", &older),
			one("cgroup", "look for cgroups in `PATH`, as --cgroup of wrap has it", &o.Cgroup),
			many("record", "look after the record in `DIR` too, which isn't beneath the state directory", &o.Records),
			yes("json", "print what was done as JSON", &asJSON),
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return &usageError{why: "cannot reap anything by name: reap takes flags alone", fix: "pinfold reap [--dry-run] [--older-than D]"}
			}
			var err error
			if o.OlderThan, err = duration("--older-than", older); err != nil {
				return err
			}
			if o.Cgroup != "" {
				if err := cgroup.Check(cgroup.Options{Path: o.Cgroup}); err != nil {
					return err
				}
			}
			return p.reap(c, o, asJSON)
		},
	}
}

func (p *program) reap(c *cli.Context, o recover.ReapOptions, asJSON bool) error {
	state, err := p.stateDir()
	if err != nil {
		return err
	}
	o.State = state
	for i, r := range o.Records {
		if o.Records[i], err = filepath.Abs(r); err != nil {
			return fmt.Errorf("cannot find record %q: %w", r, err)
		}
	}
	done, err := recover.Reap(c.Context, o)
	if err := p.printReaped(done, asJSON); err != nil {
		return err
	}
	if all, ok := err.(interface{ Unwrap() []error }); ok && p.format != "json" { //nolint:errorlint // joined by Reap
		for _, one := range all.Unwrap() {
			p.complain("%v", one)
		}
		return exitCode(p.failCode)
	}
	return err
}

func (p *program) printReaped(done recover.Reaped, asJSON bool) error {
	if asJSON {
		return p.print(true, done, "")
	}
	for _, c := range done.Cleared {
		if err := p.print(false, nil, oneLine(fmt.Sprintf("%s %q", whatWasDone(c.Kind, done.DryRun), c.Path))); err != nil {
			return err
		}
	}
	for _, u := range done.Unclear {
		p.notice("left alone: %s", u.Why)
	}
	return p.print(false, nil, reapedInAll(len(done.Cleared), len(done.Living), done.DryRun))
}

func reapedInAll(cleared, living int, dryRun bool) string {
	what, live := "cleared", "launches live"
	if dryRun {
		what = "would be cleared"
	}
	if living == 1 {
		live = "launch lives"
	}
	return fmt.Sprintf("%d %s, %d %s", cleared, what, living, live)
}

// whatWasDone says it in words, or what would be.
func whatWasDone(kind string, dryRun bool) string {
	verb, past, what := "remove", "removed", kind
	switch kind {
	case recover.KindMountPoint:
		what = "mount point"
	case recover.KindLease:
		verb, past, what = "set aside", "set aside", "damaged lease"
	}
	if dryRun {
		return "would " + verb + " the " + what
	}
	return past + " the " + what
}

// reapFirst clears what killed launches left before the guard looks at the
// file system, where a mount point of theirs would look like somebody's file.
// Where there is none that costs one look at a directory.
func reapFirst(ctx context.Context, state string) error {
	left, err := bwrap.Leftovers(state)
	if err != nil || len(left) == 0 {
		return err
	}
	_, err = recover.Reap(ctx, recover.ReapOptions{State: state})
	return err
}
