package main

import (
	"fmt"
	"os"
	"syscall"

	"github.com/urfave/cli/v2"

	"pinfold/hostgit"
)

// gitCommand has no flags of its own but the common ones: everything is git's.
func (p *program) gitCommand() *cli.Command {
	return &cli.Command{
		Name:            "git",
		Usage:           "run the host's git on a tree that a command wrote, and nothing that the tree names",
		ArgsUsage:       "[ARGS...]",
		SkipFlagParsing: true,
		Action: func(c *cli.Context) error {
			dir, err := os.Getwd()
			if err != nil {
				return noDirectory(err)
			}
			g, err := hostgit.Prepare(c.Context, dir, c.Args().Slice(), os.Environ())
			if err != nil {
				return err
			}
			err = syscall.Exec(g.Path, g.Argv, g.Env)
			return fmt.Errorf("cannot execute %q: %w", g.Path, err)
		},
	}
}
