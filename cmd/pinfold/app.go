package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"pinfold/policy"
)

// stdio are the three streams of one run.
type stdio struct {
	In, Out, Err *os.File
}

// The exit codes of pinfold itself. Any other code of wrap is the command's.
const (
	exitFailed  = 1   // check: the policy is bad; other commands: it didn't work
	exitUsage   = 2   // wrong use of a command other than wrap
	exitTimeout = 124 // --timeout passed, as timeout(1) has it
	exitRefused = 125 // refused, unavailable, or failed before the command ran
)

// program is one run of pinfold: its streams, and the flags every command has.
type program struct {
	stdio
	args   []string
	state  string
	format string // text or json
	quiet  bool
	// settings are the operator's, once they have been read.
	settings *policy.Config
	// ceilings are the settings of each file alone.
	ceilings []policy.Config
	// formatFlag is --error-format as given.
	formatFlag string
	// failCode is what a failure of the command at hand exits with, and
	// usageCode what a wrong use of it does.
	failCode, usageCode int
	// launches: a failure means that a launch didn't happen.
	launches bool
}

// exitCode is an outcome that has already been reported in full.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// usageError is a command line that can't be understood.
type usageError struct {
	why, fix string
}

func (e *usageError) Error() string { return e.why }

// run is the whole program: it reads args, does what they say and returns the
// exit code. It is callable in-process, from tests too.
func run(ctx context.Context, args []string, std stdio) int {
	p := &program{stdio: std, args: args, format: formatOf(args), failCode: exitFailed, usageCode: exitUsage}
	err := p.app().RunContext(ctx, append([]string{"pinfold"}, p.flagsFirst(args)...))
	return p.finish(err)
}

// app is the command line. ExitErrHandler is empty because the library's own
// would call os.Exit.
func (p *program) app() *cli.App {
	return &cli.App{
		Name:      "pinfold",
		Usage:     "run a command inside the boundary that a policy describes",
		UsageText: "pinfold COMMAND [flags] [-- CMD ARGS...]",
		Version:   version(),
		Writer:    p.Out,
		ErrWriter: p.Err,
		Commands:  p.commands(),
		Action:    p.noCommand,
		// A flag's value is one value, commas and all: a path may hold one.
		DisableSliceFlagSeparator: true,
		HideHelpCommand:           true,
		OnUsageError:              p.onUsageError,
		ExitErrHandler:            func(*cli.Context, error) {},
	}
}

func (p *program) commands() []*cli.Command {
	cs := []*cli.Command{
		p.wrapCommand(), p.planCommand(), p.explainCommand(),
		p.checkCommand(), p.schemaCommand(), p.initCommand(),
		p.trustCommand(), p.presetCommand(), p.connectCommand(),
		p.doctorCommand(), p.adoptCommand(), p.waitCommand(), p.signalCommand(),
		p.psCommand(), p.stopCommand(), p.resumeCommand(), p.reapCommand(), p.gitCommand(), p.buildCommand(), p.imagesCommand(), p.versionCommand(),
	}
	for _, c := range cs {
		c.Flags = append(c.Flags, p.commonFlags()...)
		// Without this "wrap -- help" would print help instead of running it.
		c.HideHelpCommand = true
		c.Before = p.before
		c.OnUsageError = p.onUsageError
	}
	return cs
}

// commonFlags are accepted by every command.
func (p *program) commonFlags() []cli.Flag {
	return []cli.Flag{
		one("state", "keep pinfold's own state in `DIR` (default: $PINFOLD_STATE, else $XDG_STATE_HOME/pinfold)", &p.state),
		one("error-format", "print a refusal as `text|json`", &p.formatFlag),
	}
}

// before runs when a command's flags have been read.
func (p *program) before(c *cli.Context) error {
	p.setCodes(c.Command.Name)
	p.format = "text"
	switch p.formatFlag {
	case "", "text":
	case "json":
		p.format = "json"
	default:
		return &usageError{
			why: fmt.Sprintf("cannot print refusals as %q: the formats are text and json", p.formatFlag),
			fix: "use --error-format text or --error-format json",
		}
	}
	return nil
}

// noCommand is what runs when the first argument names no command.
func (p *program) noCommand(c *cli.Context) error {
	if name := c.Args().First(); name != "" {
		return &usageError{
			why: fmt.Sprintf("cannot run %q: there is no such command", name),
			fix: "see 'pinfold --help' for the commands; to run a program, 'pinfold wrap -- PROGRAM'",
		}
	}
	return &usageError{
		why: "cannot do anything: no command was given",
		fix: "see 'pinfold --help' for the commands",
	}
}

func (p *program) onUsageError(c *cli.Context, err error, _ bool) error {
	var u *usageError
	if errors.As(err, &u) {
		return u
	}
	name := "pinfold"
	if c.Command != nil && c.Command.HelpName != "" {
		name = c.Command.HelpName
		p.setCodes(c.Command.Name)
	}
	return &usageError{
		why: "cannot read the command line: " + readableFlagError(err),
		fix: fmt.Sprintf("see '%s --help' for the flags", name),
	}
}

// setCodes chooses what a failure of the named command exits with. A failure
// of wrap must not look like one of the command it was to run.
func (p *program) setCodes(command string) {
	switch command {
	case "wrap":
		p.failCode, p.usageCode, p.launches = exitRefused, exitRefused, true
	case "plan", "explain":
		p.failCode, p.launches = exitRefused, true
	case "adopt", "signal", "ps", "stop", "reap":
		p.failCode = exitRefused
	case "wait", "resume":
		p.failCode, p.usageCode = exitRefused, exitRefused
	}
}
