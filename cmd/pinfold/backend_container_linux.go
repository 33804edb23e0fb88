package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"pinfold/bwrap"
	"pinfold/container"
	"pinfold/container/engine"
	"pinfold/container/launch"
	"pinfold/event"
	"pinfold/guard"
	"pinfold/plan"
	"pinfold/policy"
	"pinfold/stub/wire"
)

// containerBoundary is an engine's.
type containerBoundary struct {
	engine *engine.Engine
	launch *container.Launch
	dirs   launch.Dirs
	l      *prepared
}

func (b containerBoundary) planned() *plan.Plan { return b.launch.Plan }

// shell is what an engine's own client would be told. The hand-over isn't in
// it: by hand there is no supervisor to call.
func (b containerBoundary) shell() (string, error) {
	var s strings.Builder
	s.WriteString("# Without pinfold: nobody answers the stub's call, so this makes the container and runs nothing.\n")
	s.WriteString(b.engine.Name() + " create")
	for _, a := range container.Arguments(b.launch.Spec) {
		s.WriteString(" \\\n  " + policy.ShellQuote(a))
	}
	return s.String() + "\n", nil
}

func (b containerBoundary) transparent() bool { return false }

// start runs the launch. What it says is put in the words that the rest of
// this program has.
func (b containerBoundary) start(ctx context.Context, r *oneRun) (running, error) {
	o := r.startOptions()
	b.l.dirs = launch.Dirs{} // Start's from here on
	if d := r.options.timeout; d > 0 && (b.launch.Limits.Timeout == 0 || d < b.launch.Limits.Timeout) {
		b.launch.Limits.Timeout = d // for a supervisor that takes over, too
	}
	terminal, err := bwrap.FindTerminal(o.Streams)
	if err != nil {
		return nil, errors.Join(err, b.dirs.Remove(), b.engine.Close())
	}
	options := launch.Options{
		Provider: b.engine, Launch: b.launch, Dirs: b.dirs, Owner: b.l.request.Owner,
		Streams: launch.Streams(o.Streams), Egress: func() (launch.Egress, error) { return o.Egress() },
		Network: r.network, Record: o.Record, Events: o.Events, AllFlows: o.AllFlows, Run: o.Run, Grace: o.Grace, Forward: o.Forward,
		Watch: watchNames(o, b.launch.Watches), Listening: engine.Listening,
		Keep: freshPaths(o.Fresh), State: o.State, Umask: b.l.umask, Notice: o.Notice, Lost: o.Lost,
	}
	if terminal != nil {
		options.Terminal = terminal
	}
	p, err := launch.Start(ctx, options)
	if n, ok := errors.AsType[*launch.NotRunError](err); ok {
		err = &bwrap.NotRunError{Exit: containerExit(n.Exit), Why: n.Why, Err: n.Err}
	}
	if err != nil {
		return nil, errors.Join(err, b.engine.Close())
	}
	return containerProcess{p, b.engine}, nil
}

// watchNames watches names on the host, as the process tier does.
func watchNames(o bwrap.StartOptions, watches []guard.Watch) func([]string, func() error, func(error)) (launch.Names, error) {
	emit := func(e event.Event) {
		e.Time, e.Run = time.Now(), o.Run
		o.Events.Emit(e)
	}
	return func(paths []string, changed func() error, lost func(error)) (launch.Names, error) {
		return bwrap.WatchNames(bwrap.WatchOptions{
			Watches: watches, Paths: paths, Changed: changed, Lost: lost,
			Record: o.Record, State: o.State, Notice: o.Notice, Emit: emit,
		})
	}
}

func freshPaths(list []bwrap.Fresh) []string {
	out := make([]string, 0, len(list))
	for _, f := range list {
		out = append(out, f.Path)
	}
	return out
}

// engineAhead is an engine that was looked for while the guard looked.
type engineAhead struct {
	engine *engine.Engine
	err    error
}

// containerAhead looks for the engine while the guard looks at the launch.
func (l *prepared) containerAhead(ctx context.Context) func(*guard.Grant) (boundary, error) {
	found := make(chan engineAhead, 1)
	go func() {
		e, err := engine.Open(ctx, l.choice())
		found <- engineAhead{e, err}
	}()
	return func(g *guard.Grant) (boundary, error) {
		ahead := <-found
		if ahead.err != nil {
			return nil, ahead.err
		}
		b, err := l.contain(ctx, g, ahead.engine)
		if err != nil {
			return nil, errors.Join(err, ahead.engine.Close())
		}
		return b, nil
	}
}

// contain translates the Grant for an engine.
func (l *prepared) contain(ctx context.Context, g *guard.Grant, e *engine.Engine) (boundary, error) {
	image, err := l.image(ctx, e)
	if err != nil {
		return nil, err
	}
	stub, sum, err := launch.Stub(l.request.State, runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	if l.dirs, err = launch.MakeDirs(l.request.State); err != nil {
		return nil, err
	}
	c, err := e.Plan(ctx, g, container.Options{
		Image: image, Stub: stub, StubSHA256: sum, Handover: l.dirs.Handover, Scratch: l.dirs.Scratch, Relays: l.dirs.Relays,
		UID: l.request.UID, GID: l.request.GID, Args: []string{wire.ContainerArg},
		Labels: launch.Labels(l.request.State, l.request.Owner), Tools: sharedPrograms(l.request.Share),
	})
	if err != nil {
		return nil, err
	}
	nameFresh(c.Plan, append(l.fresh, bwrap.Fresh{Name: "{launch}", Path: l.dirs.Root}))
	return containerBoundary{engine: e, launch: c, dirs: l.dirs, l: l}, nil
}

// sharedPrograms are the programs among what the caller shares: a client of
// its own, which is to be found before any of the image's. The guard has let
// the paths through, and the mount is of what stands there.
func sharedPrograms(share []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, path := range share {
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue // the guard's to say
		}
		st, err := os.Lstat(real)
		if err != nil || !st.Mode().IsRegular() || st.Mode().Perm()&0o111 == 0 || seen[filepath.Base(real)] {
			continue
		}
		seen[filepath.Base(real)] = true
		out = append(out, real)
	}
	return out
}

// nameFresh replaces the directories that were made for this launch by their
// names, so that the plan is the same from run to run.
func nameFresh(p *plan.Plan, fresh []bwrap.Fresh) {
	for _, f := range fresh {
		for i := range p.Args {
			p.Args[i] = strings.ReplaceAll(p.Args[i], f.Path, f.Name)
		}
		for i := range p.Mounts {
			for _, s := range []*string{&p.Mounts[i].Path, &p.Mounts[i].Source, &p.Mounts[i].Rule.Text} {
				*s = strings.ReplaceAll(*s, f.Path, f.Name)
			}
		}
		for _, s := range []*string{&p.Dir, &p.Paths.Workspace, &p.Paths.Run, &p.Paths.Tmp} {
			*s = strings.ReplaceAll(*s, f.Path, f.Name)
		}
	}
}
