package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/urfave/cli/v2"
)

// recordFlags are those of the commands about one recorded launch.
type recordFlags struct {
	record string
	json   bool
}

func (f *recordFlags) flags(more ...cli.Flag) []cli.Flag {
	return append([]cli.Flag{
		one("record", "the launch's record is in `DIR`", &f.record),
		yes("json", "print the outcome as JSON", &f.json),
	}, more...)
}

// check wants a record, and args more words.
func (f *recordFlags) check(c *cli.Context, args int, usage string) error {
	switch {
	case f.record == "":
		return &usageError{why: "cannot tell which launch is meant: --record is missing", fix: usage}
	case c.NArg() != args:
		return &usageError{why: fmt.Sprintf("cannot use %d arguments: %s takes %d", c.NArg(), c.Command.HelpName, args), fix: usage}
	}
	abs, err := filepath.Abs(f.record)
	if err != nil {
		return fmt.Errorf("cannot find record %q: %w", f.record, err)
	}
	f.record = abs
	return nil
}

// print writes an outcome to standard output: as JSON, or as the line of text.
func (p *program) print(asJSON bool, v any, text string) error {
	var err error
	if asJSON {
		out := json.NewEncoder(p.Out)
		out.SetIndent("", "  ")
		out.SetEscapeHTML(false)
		err = out.Encode(v)
	} else if text != "" {
		_, err = fmt.Fprintln(p.Out, text)
	}
	if err != nil {
		return fmt.Errorf("cannot print the outcome: %w", err)
	}
	return nil
}
