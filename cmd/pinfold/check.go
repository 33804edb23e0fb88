package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"pinfold/policy"
)

func (p *program) checkCommand() *cli.Command {
	var servers, tier string
	return &cli.Command{
		Name:      "check",
		Usage:     "read a policy file and say what is wrong with it",
		ArgsUsage: "FILE",
		Flags: []cli.Flag{
			one("mcp", "warn of servers in `FILE` (.mcp.json) that a command couldn't reach", &servers),
			one("tier", "as if the policy said this `TIER`", &tier),
		},
		Action: func(c *cli.Context) error {
			file, err := oneArg(c, "FILE")
			if err != nil {
				return err
			}
			pol, err := policy.Load(file)
			if err != nil {
				return err
			}
			for _, w := range pol.IdleExcepts() {
				fmt.Fprintf(p.Err, "warning: %s\n", oneLine(w))
			}
			if err := p.warnOfServers(pol, servers, tier); err != nil {
				return err
			}
			_, err = fmt.Fprintf(p.Out, "%s: ok\n", oneLine(file))
			return err
		},
	}
}

// warnOfServers says which of a client's servers a command can't reach: such a
// policy is good, and does less than its author may think.
func (p *program) warnOfServers(pol *policy.Policy, file, tier string) error {
	if err := (&launchFlags{tier: tier}).checkTier(); err != nil {
		return err
	}
	if err := chooseTier(pol, tier); err != nil || file == "" {
		return err
	}
	servers, err := readMCP(file)
	if err != nil {
		return err
	}
	for _, w := range mcpWarnings(pol, servers) {
		fmt.Fprintf(p.Err, "warning: %s\n", oneLine(w))
	}
	return nil
}
