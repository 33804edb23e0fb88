package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"pinfold/guard"
	"pinfold/policy"
)

// walk measures the guard by itself on the large workspace, nearly all of which
// is the walk for hard links, against find, which looks for nothing else.
func (b *bench) walk() error {
	if b.files == 0 {
		return nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return err
	}
	p := &policy.Policy{Write: []policy.PathRule{{Text: "{workspace}", Source: "write[0]"}}}
	r := guard.Request{
		Argv: []string{"true"}, Workspace: b.ws, Home: home, Env: []string{"HOME=" + home}, UID: os.Getuid(), GID: os.Getgid(),
	}
	find := b.plain("find", "find", b.ws, "-type", "f", "-links", "+1")
	var ours, theirs []time.Duration
	for range 7 {
		d, err := took(func() error {
			g, err := guard.GuardLaunch(context.Background(), p, r, nil)
			if err == nil {
				g.Close()
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("cannot walk: %w", err)
		}
		ours = append(ours, d)
		if d, err = find.once(); err != nil {
			return err
		}
		theirs = append(theirs, d)
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	what := fmt.Sprintf("the guard alone on %s files, its walk for hard links, against `find -type f -links +1`", thousands(b.files))
	b.rows = append(b.rows, row{what, ms(ours[3]), ms(theirs[3]), times(ours[3], theirs[3]), "at most 0.7 ×"})
	return nil
}
