package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/urfave/cli/v2"

	"pinfold/plan"
)

func (p *program) planCommand() *cli.Command {
	f := &launchFlags{}
	var asJSON, digestOnly bool
	var as string
	return &cli.Command{
		Name:      "plan",
		Usage:     "print what a launch would do, and do nothing",
		ArgsUsage: "-- CMD [ARGS...]",
		Flags: append(f.flags(),
			yes("json", "print the plan as JSON", &asJSON),
			yes("digest", "print only its digest", &digestOnly),
			one("as", "print a command line for `bwrap|docker|podman` that a person can run by hand", &as),
		),
		Action: func(c *cli.Context) error {
			if as != "" && !slices.Contains([]string{"bwrap", "docker", "podman"}, as) {
				return &usageError{
					why: fmt.Sprintf("cannot print the plan for %q: only bwrap, docker and podman are known", as),
					fix: "use --as bwrap",
				}
			}
			return p.plan(c, f, planOutput{json: asJSON, digest: digestOnly, shell: as})
		},
	}
}

// planOutput is which form of a plan is wanted; the zero value is text.
type planOutput struct {
	json, digest bool
	shell        string // whose command line
}

func (o planOutput) check() error {
	n := 0
	for _, set := range []bool{o.json, o.digest, o.shell != ""} {
		if set {
			n++
		}
	}
	if n > 1 {
		return &usageError{
			why: "cannot print the plan: more than one form was asked for",
			fix: "use one of --json, --digest and --as",
		}
	}
	return nil
}

// plan goes as far as wrap does before anything is started.
func (p *program) plan(c *cli.Context, f *launchFlags, o planOutput) error {
	argv, err := commandOf(c)
	if err == nil {
		err = o.check()
	}
	if err != nil {
		return err
	}
	l, err := p.prepare(f, argv)
	if err == nil {
		err = l.checkRecord()
	}
	if err == nil && o.shell != "" {
		err = l.removeRecord() // what is run by hand finds it as it is now
	}
	if err == nil {
		err = p.printPlan(c.Context, l, o)
	}
	return errors.Join(p.fromInside(err), l.removeFresh(err))
}

func (p *program) printPlan(ctx context.Context, l *prepared, o planOutput) error {
	g, err := l.guard(ctx)
	if err != nil {
		return err
	}
	defer g.grant.Close()
	if err := l.refuseKept(g.grant); err != nil {
		return err
	}
	switch pl := g.launch.planned(); {
	case o.json:
		return p.printCanonical(pl)
	case o.digest:
		return p.printDigest(pl)
	case o.shell != "" && o.shell != pl.Backend:
		return &usageError{
			why: fmt.Sprintf("cannot print the plan for %s: this launch is %s's", o.shell, pl.Backend),
			fix: "use --as " + pl.Backend,
		}
	case o.shell != "":
		text, err := g.launch.shell()
		if err == nil {
			_, err = io.WriteString(p.Out, text)
		}
		return err
	default:
		return pl.Text(p.Out)
	}
}

func (p *program) printCanonical(pl *plan.Plan) error {
	text, err := pl.Canonical()
	if err != nil {
		return err
	}
	_, err = p.Out.Write(append(text, '\n'))
	return err
}

func (p *program) printDigest(pl *plan.Plan) error {
	digest, err := pl.Digest()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(p.Out, digest)
	return err
}
