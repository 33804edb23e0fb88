package main

import (
	"cmp"
	"fmt"
	"net/url"
	"os"

	"github.com/urfave/cli/v2"

	"pinfold/bwrap"
	"pinfold/egress"
)

func (p *program) connectCommand() *cli.Command {
	return &cli.Command{
		Name:      "connect",
		Usage:     "carry standard input and output to a host, through the proxy inside",
		ArgsUsage: "HOST PORT",
		Description: "For programs that have no proxy setting of their own:\n\n" +
			"   ssh -o ProxyCommand='pinfold connect %h %p' git@github.com",
		Action: func(c *cli.Context) error {
			if c.NArg() != 2 {
				return &usageError{
					why: fmt.Sprintf("cannot tell where to connect: %d arguments were given", c.NArg()),
					fix: "pinfold connect HOST PORT",
				}
			}
			return egress.Connect(c.Context, proxyAddress(), c.Args().Get(0), c.Args().Get(1), p.In, p.Out)
		},
	}
}

// proxyAddress is where the proxy listens: what the variables say, since a
// launch sets them, else where this build's launches put it.
func proxyAddress() string {
	value := cmp.Or(os.Getenv("HTTPS_PROXY"), os.Getenv("https_proxy"))
	if u, err := url.Parse(value); err == nil && u.Host != "" && u.Port() != "" {
		if u.User != nil {
			return u.User.String() + "@" + u.Host
		}
		return u.Host
	}
	return bwrap.ProxyAddress
}
