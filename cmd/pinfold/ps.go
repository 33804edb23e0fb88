package main

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"pinfold/recover"
)

func (p *program) psCommand() *cli.Command {
	var asJSON bool
	var records []string
	return &cli.Command{
		Name:  "ps",
		Usage: "list every record with what its launch is doing",
		Flags: []cli.Flag{
			many("record", "list the record in `DIR` too, which isn't beneath the state directory", &records),
			yes("json", "print the list as JSON, with the mounts of living launches", &asJSON),
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return &usageError{why: "cannot list anything by name: ps takes flags alone", fix: "pinfold ps [--record DIR] [--json]"}
			}
			return p.ps(records, asJSON)
		},
	}
}

func (p *program) ps(records []string, asJSON bool) error {
	state, err := p.stateDir()
	if err != nil {
		return err
	}
	list, err := recover.Survey(state, records)
	if err != nil {
		return err
	}
	if asJSON {
		return p.print(true, list, "")
	}
	w := tabwriter.NewWriter(p.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "STATE\tPID\tSTARTED\tEXECUTION\tWORKSPACE\tCOMMAND\tRECORD")
	for i := range list {
		fmt.Fprintln(w, strings.Join(psRow(&list[i]), "\t"))
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("cannot print the list: %w", err)
	}
	return nil
}

// psRow is one line; what a command was called may hold anything.
func psRow(i *recover.Info) []string {
	state := string(i.State)
	switch {
	case i.Why != "":
		state = "unclear"
	case i.Exit != nil:
		state += " " + strconv.Itoa(i.Exit.Code)
	}
	pid := "-"
	if i.PID != 0 {
		pid = strconv.Itoa(i.PID)
	}
	row := []string{state, pid, i.Started, i.Owner.Execution, i.Workspace, strings.Join(i.Command, " "), i.Record}
	if i.Why != "" {
		row[5] = "(" + i.Why + ")"
	}
	for n, s := range row {
		if row[n] = cut(oneLine(s)); s == "" {
			row[n] = "-"
		}
	}
	row[6] = oneLine(i.Record)
	return row
}

// cut keeps a column of a list from filling the screen.
func cut(s string) string {
	const width = 60
	if r := []rune(s); len(r) > width {
		return string(r[:width-1]) + "…"
	}
	return s
}
