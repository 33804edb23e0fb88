package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"pinfold/recover"
)

func (p *program) signalCommand() *cli.Command {
	f := &recordFlags{}
	return &cli.Command{
		Name:      "signal",
		Usage:     "send a signal to the command of a recorded launch",
		ArgsUsage: "TERM",
		Flags:     f.flags(),
		Action: func(c *cli.Context) error {
			if err := f.check(c, 1, "pinfold signal --record DIR TERM"); err != nil {
				return err
			}
			return p.signal(c, f)
		},
	}
}

// signalled is the outcome of signal.
type signalled struct {
	Record string `json:"record"`
	Signal string `json:"signal"`
	Sent   bool   `json:"sent"` // false: the command had ended
}

func (p *program) signal(c *cli.Context, f *recordFlags) error {
	sig, err := signalOf(c.Args().First())
	if err != nil {
		return err
	}
	run, err := recover.OpenStarted(c.Context, f.record)
	if err != nil {
		return err
	}
	defer run.Close()
	out := signalled{Record: f.record, Signal: unix.SignalName(sig), Sent: true}
	err = run.Signal(sig)
	if errors.Is(err, recover.ErrEnded) {
		out.Sent = false
	} else if err != nil {
		return err
	}
	if err := p.print(f.json, out, ""); err != nil {
		return err
	}
	if !out.Sent {
		p.notice("the command of %q has ended", f.record)
		return exitCode(exitFailed)
	}
	return nil
}

// signalOf reads TERM, SIGTERM or 15.
func signalOf(s string) (unix.Signal, error) {
	name := strings.ToUpper(s)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	if sig := unix.SignalNum(name); sig != 0 {
		return sig, nil
	}
	if n, err := strconv.Atoi(s); err == nil && unix.SignalName(unix.Signal(n)) != "" {
		return unix.Signal(n), nil
	}
	return 0, &usageError{
		why: fmt.Sprintf("cannot send %q: there is no such signal", s),
		fix: "name one, such as TERM, INT, HUP, USR1 or KILL",
	}
}
