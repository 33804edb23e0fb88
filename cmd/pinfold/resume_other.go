//go:build !linux

package main

import "github.com/urfave/cli/v2"

func (p *program) resumeCommand() *cli.Command {
	return &cli.Command{
		Name:  "resume",
		Usage: "take over a container whose supervisor has gone (Linux)",
		Action: func(*cli.Context) error {
			return &usageError{why: "cannot take over a container: the container tier needs Linux", fix: "pinfold ps shows what runs"}
		},
	}
}
