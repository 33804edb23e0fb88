package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"pinfold/bwrap"
	"pinfold/guard"
)

// guarded is a launch that the guard let through, translated.
type guarded struct {
	grant  *guard.Grant
	launch *bwrap.Launch
}

// guard asks the guard and translates its answer. Nothing has been started,
// and nothing made, when it returns.
func (l *prepared) guard(ctx context.Context) (*guarded, error) {
	ahead := bwrap.LookAhead(ctx, os.Getenv("PATH"), l.request.State)
	grant, err := guard.GuardLaunch(ctx, l.policy, l.request, l.protected)
	if err != nil {
		return nil, err
	}
	launch, err := l.translate(ahead, grant)
	if err != nil {
		return nil, errors.Join(err, grant.Close())
	}
	return &guarded{grant: grant, launch: launch}, nil
}

func (l *prepared) translate(ahead *bwrap.Ahead, grant *guard.Grant) (*bwrap.Launch, error) {
	machine, err := ahead.Machine(grant.Writable)
	if err != nil {
		return nil, err
	}
	return bwrap.Translate(grant, machine, bwrap.Options{Umask: umask(), Fresh: l.fresh})
}

// removeFresh takes away what was made for this launch alone. The command may
// have left directories without any permission in it.
func (l *prepared) removeFresh() error {
	var errs []error
	for _, f := range l.fresh {
		if err := os.RemoveAll(f.Path); err == nil {
			continue
		}
		openAll(f.Path)
		errs = append(errs, os.RemoveAll(f.Path))
	}
	return errors.Join(errs...)
}

// openAll gives the owner back the directories beneath dir. It follows no
// link: WalkDir doesn't, and the root is held.
func openAll(dir string) {
	root, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return
	}
	defer root.Close()
	name := filepath.Base(dir)
	_ = fs.WalkDir(root.FS(), name, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && err == nil {
			_ = root.Chmod(path, 0o700) //nolint:gosec // a directory
		}
		return nil
	})
}
