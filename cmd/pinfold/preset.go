package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"pinfold/policy"
)

func (p *program) presetCommand() *cli.Command {
	return &cli.Command{
		Name:        "preset",
		Usage:       "list the built-in policies, or print one",
		ArgsUsage:   "[NAME]",
		Description: "A policy builds on one with \"extends\": [\"preset:NAME\"].",
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 {
				return p.listPresets()
			}
			name, err := oneArg(c, "NAME")
			if err != nil {
				return err
			}
			text, err := policy.Preset(name)
			if err != nil {
				return &usageError{
					why: fmt.Sprintf("cannot print preset %q: %v", name, err),
					fix: "the presets are " + strings.Join(policy.Presets(), ", "),
				}
			}
			_, err = p.Out.Write(text)
			return err
		},
	}
}

func (p *program) listPresets() error {
	for _, name := range policy.Presets() {
		if _, err := fmt.Fprintln(p.Out, name); err != nil {
			return err
		}
	}
	return nil
}
