package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/urfave/cli/v2"
)

// buildVersion is set by the linker (make build).
var buildVersion string //nolint:gochecknoglobals // -ldflags -X needs a variable

func version() string {
	if buildVersion != "" {
		return buildVersion
	}
	return "devel"
}

func (p *program) versionCommand() *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "print the version",
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			_, err := fmt.Fprintf(p.Out, "pinfold %s %s/%s %s%s\n",
				version(), runtime.GOOS, runtime.GOARCH, runtime.Version(), revision())
			return err
		},
	}
}

// revision is the commit the program was built from, where that is known.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return " " + s.Value[:12]
		}
	}
	return ""
}

// noArgs refuses arguments that a command doesn't take.
func noArgs(c *cli.Context) error {
	if c.NArg() == 0 {
		return nil
	}
	return &usageError{
		why: fmt.Sprintf("cannot use argument %q: '%s' takes none", c.Args().First(), c.Command.HelpName),
		fix: fmt.Sprintf("see '%s --help'", c.Command.HelpName),
	}
}

// oneArg returns a command's only argument.
func oneArg(c *cli.Context, what string) (string, error) {
	given := fmt.Sprintf("%d arguments were given", c.NArg())
	switch {
	case c.NArg() == 1 && c.Args().First() != "":
		return c.Args().First(), nil
	case c.NArg() == 1:
		given = "the argument is empty"
	}
	return "", &usageError{
		why: fmt.Sprintf("cannot tell which %s is meant: %s", what, given),
		fix: fmt.Sprintf("'%s %s' takes exactly one", c.Command.HelpName, what),
	}
}
