package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"pinfold/policy"
)

func (p *program) checkCommand() *cli.Command {
	return &cli.Command{
		Name:      "check",
		Usage:     "read a policy file and say what is wrong with it",
		ArgsUsage: "FILE",
		Action: func(c *cli.Context) error {
			file, err := oneArg(c, "FILE")
			if err != nil {
				return err
			}
			if _, err := policy.Load(file); err != nil {
				return err
			}
			_, err = fmt.Fprintf(p.Out, "%s: ok\n", oneLine(file))
			return err
		},
	}
}
