package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"pinfold/guard"
	"pinfold/hostgit"
	"pinfold/plan"
	"pinfold/policy"
	"pinfold/recover"
)

// gitCommand has no flags of its own but the common ones: everything is git's.
func (p *program) gitCommand() *cli.Command {
	return &cli.Command{
		Name:            "git",
		Usage:           "run the host's git on a tree that a command wrote, and nothing that the tree names",
		ArgsUsage:       "[ARGS...]",
		SkipFlagParsing: true,
		Action: func(c *cli.Context) error {
			dir, err := os.Getwd()
			if err != nil {
				return noDirectory(err)
			}
			g, err := p.prepareGit(c.Context, dir, c.Args().Slice())
			if err != nil {
				return err
			}
			err = syscall.Exec(g.Path, g.Argv, g.Env)
			return fmt.Errorf("cannot execute %q: %w", g.Path, err)
		},
	}
}

// prepareGit looks at what git would obey, and refuses while a launch may
// change it: one that lived before the look could have done so since and be
// gone, and one may have begun meanwhile.
func (p *program) prepareGit(ctx context.Context, dir string, args []string) (*hostgit.Command, error) {
	before, err := p.writers()
	if err != nil {
		return nil, err
	}
	g, err := hostgit.Prepare(ctx, dir, args, os.Environ())
	if err != nil {
		return nil, err
	}
	after, err := p.writers()
	if err != nil {
		return nil, err
	}
	for _, w := range slices.Concat(before, after) {
		if place := w.reaches(g.Places); place != "" {
			return nil, &policy.Refusal{
				Reason: policy.Denied, Code: "git_busy", Subject: place,
				Why: fmt.Sprintf("cannot run git: the launch of record %q may change %q meanwhile", w.record, place),
				Fix: "wait until it is over: pinfold wait --record " + w.record + ", or pinfold stop --record " + w.record,
			}
		}
	}
	return g, nil
}

// writer is a launch that hasn't ended, with the places where it may write.
type writer struct {
	record string
	paths  []string
}

// reaches answers which of the places a launch may write in.
func (w writer) reaches(places []string) string {
	for _, place := range places {
		for _, path := range w.paths {
			if isBeneath(place, path) || isBeneath(path, place) {
				return place
			}
		}
	}
	return ""
}

func isBeneath(path, parent string) bool {
	return path == parent || parent == "/" || strings.HasPrefix(path, parent+"/")
}

// writers are the launches of this state directory that live, or of which
// nobody can tell, wherever their records lie.
func (p *program) writers() ([]writer, error) {
	state, err := p.statePath()
	if err != nil {
		return nil, err
	}
	records, err := plan.Records(state)
	if err != nil {
		return nil, err
	}
	noted, err := plan.Noted(state)
	if err != nil {
		return nil, cannotTell(state, "what runs", err)
	}
	var out []writer
	for _, record := range slices.Concat(records, noted) {
		if _, err := os.Lstat(filepath.Join(record, "exit")); err == nil {
			continue // it has ended, and there may be thousands
		}
		i := recover.Look(record)
		if i.Exit != nil || i.State != recover.Running && i.State != recover.Starting && i.Why == "" {
			continue
		}
		w, err := writerOf(i)
		if errors.Is(err, fs.ErrNotExist) {
			continue // no plan yet, or removed: nothing runs
		}
		if err != nil {
			return nil, cannotTell(i.Record, fmt.Sprintf("where the launch of record %q may write", i.Record), err)
		}
		out = append(out, w)
	}
	return out, nil
}

func cannotTell(subject, what string, err error) error {
	return &policy.Refusal{
		Reason: policy.Denied, Code: "git_busy", Subject: subject,
		Why: fmt.Sprintf("cannot tell %s: %v", what, err),
		Fix: "see pinfold ps; pinfold reap takes away what has ended", Err: err,
	}
}

// writerOf reads from a record where its launch may write.
func writerOf(i recover.Info) (writer, error) {
	w := writer{record: i.Record}
	mounts := i.Mounts
	if mounts == nil {
		stored, err := plan.ReadRecord(i.Record)
		if err != nil {
			return w, err
		}
		mounts = stored.Plan.Mounts
	}
	for _, m := range mounts {
		if m.Access != guard.ReadWrite.String() || m.Kind == "tmpfs" {
			continue
		}
		for _, path := range []string{m.Path, m.Source} {
			if path != "" {
				w.paths = append(w.paths, filepath.Clean(path))
			}
		}
	}
	return w, nil
}
