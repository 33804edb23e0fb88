package main

import (
	"errors"
	"strings"

	"github.com/urfave/cli/v2"
)

// errTwice refuses a repeated flag: which of two policies would be meant?
// errEmpty refuses an empty value: it is a shell variable that isn't set, and
// "no policy" or "nothing to protect" must not come of that.
//
// errNext refuses a flag, or the end of flags, as a value: that is a variable
// that isn't set and isn't quoted either. A path that begins so is "./--x".
var (
	errTwice = errors.New("it was given twice")
	errEmpty = errors.New("it is empty")
	errNext  = errors.New("its value is missing, and that is what comes next")
)

// checkValue refuses what can't have been meant.
func checkValue(s string) error {
	switch {
	case s == "":
		return errEmpty
	case strings.HasPrefix(s, "--"):
		return errNext
	}
	return nil
}

// text is the value of a flag that may be given once. It is taken literally.
type text struct {
	to    *string
	given bool
}

func (t *text) Set(s string) error {
	if t.given {
		return errTwice
	}
	if err := checkValue(s); err != nil {
		return err
	}
	*t.to, t.given = s, true
	return nil
}

func (t *text) String() string { return "" }

// list is the value of a flag that may be repeated; every occurrence is one
// value, with its commas and spaces.
type list struct {
	to *[]string
}

func (l *list) Set(s string) error {
	if err := checkValue(s); err != nil {
		return err
	}
	*l.to = append(*l.to, s)
	return nil
}

func (l *list) String() string { return "" }

// valued is a flag with a value and one name. The library asks every flag for
// its names again for every flag there is, and makes them by a regular
// expression each time.
type valued struct {
	*cli.GenericFlag
	names []string
}

func (v valued) Names() []string { return v.names }

func newValued(name, usage string, to cli.Generic) cli.Flag {
	return valued{&cli.GenericFlag{Name: name, Usage: usage, Value: to}, []string{name}}
}

// one is a flag given once at most. What stands in backquotes in its usage is
// the placeholder that help shows.
func one(name, usage string, to *string) cli.Flag {
	return newValued(name, usage, &text{to: to})
}

// many is a flag that may be repeated.
func many(name, usage string, to *[]string) cli.Flag {
	return newValued(name, usage+" (repeatable)", &list{to: to})
}

// yes is a flag without a value.
func yes(name, usage string, to *bool) cli.Flag {
	return &cli.BoolFlag{Name: name, Usage: usage, Destination: to, DisableDefaultText: true}
}

// readableFlagError is an error of the flag package, which writes flags with
// one dash.
func readableFlagError(err error) string {
	return strings.NewReplacer("for flag -", "for flag --", "for -", "for --", "not defined: -", "not defined: --", "argument: -", "argument: --").Replace(err.Error())
}

// formatOf finds --error-format before the command line is parsed, so that a
// command line that can't be parsed is still answered as asked.
func formatOf(args []string) string {
	for i, a := range args {
		if a == "--" {
			break
		}
		name, value, ok := strings.Cut(strings.TrimLeft(a, "-"), "=")
		if name != "error-format" || !strings.HasPrefix(a, "-") {
			continue
		}
		if !ok && i+1 < len(args) {
			value = args[i+1]
		}
		if value == "json" {
			return value
		}
	}
	return "text"
}
