package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// subjects are the commands that are about one thing, before or after whose
// name flags may stand. What other commands are given may be a command line,
// which stays as it is.
var subjects = []string{"explain", "check", "schema", "preset", "trust", "init"}

// flagsFirst brings flags before the argument, where the library looks for
// them. After "--" nothing is a flag.
func (p *program) flagsFirst(args []string) []string {
	if len(args) == 0 || !slices.Contains(subjects, args[0]) {
		return args
	}
	commands := p.commands()
	c := commands[slices.IndexFunc(commands, func(c *cli.Command) bool { return c.Name == args[0] })]
	flags, rest := []string{args[0]}, []string{}
	for i := 1; i < len(args); i++ {
		switch a := args[i]; {
		case a == "--":
			return slices.Concat(flags, args[i:i+1], rest, args[i+1:])
		case !strings.HasPrefix(a, "-") || a == "-":
			rest = append(rest, a)
		default:
			flags = append(flags, a)
			if i+1 < len(args) && takesValue(c, a) {
				i++
				flags = append(flags, args[i])
			}
		}
	}
	return append(flags, rest...)
}

// takesValue says whether the next argument is a flag's value. Of a flag that
// nobody knows it is none.
func takesValue(c *cli.Command, arg string) bool {
	name := strings.TrimLeft(arg, "-")
	i := slices.IndexFunc(c.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
	if i < 0 {
		return false
	}
	_, isBool := c.Flags[i].(*cli.BoolFlag)
	return !isBool
}
