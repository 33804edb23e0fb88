package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"pinfold/container"
	"pinfold/container/engine"
)

// engineTimeout bounds what an engine is asked: one that hangs is an answer.
const engineTimeout = 20 * time.Second

// ContainerChecks are the rows of the container tier: each engine, what the
// one that a launch would take can do, and a launch.
func ContainerChecks(choice engine.Choice) []Check {
	e := &engines{choice: choice, infos: map[string]engineInfo{}}
	var checks []Check
	for _, name := range engine.Names() {
		checks = append(checks, Check{Name: name, Run: func(ctx context.Context, _ *Host) Result { return e.reached(ctx, name) }})
	}
	checks = append(checks, Check{Name: "engine", Run: func(ctx context.Context, _ *Host) Result {
		r := e.row(ctx, choice.Runtime, e.chosenRow)
		r.container = true
		return r
	}})
	for _, c := range []struct {
		name string
		row  func(container.Info) Result
	}{{"engine user", userRow}, {"container limits", limitsRow}, {"container restarts", restartRow}} {
		checks = append(checks, Check{Name: c.name, Run: func(ctx context.Context, _ *Host) Result {
			r := e.row(ctx, choice.Runtime, c.row)
			if r.Status == Fail { // the row above has said why
				r = unknown(r.Code, "no engine to ask")
			}
			return r
		}})
	}
	return append(checks, trialChecks(choice)...)
}

// engines remembers what each has said: docker takes a third of a second.
type engines struct {
	choice engine.Choice
	infos  map[string]engineInfo
}

type engineInfo struct {
	info container.Info
	err  error
}

// row words what an engine says; the one that a launch would take has no name.
func (e *engines) row(ctx context.Context, name string, row func(container.Info) Result) Result {
	known, asked := e.infos[name]
	if !asked {
		choice := e.choice
		choice.Runtime = name
		known.err = withEngine(ctx, choice, func(_ context.Context, _ *engine.Engine, info container.Info) error {
			known.info = info
			return nil
		})
		e.infos[name] = known
	}
	if known.err != nil {
		return refused(known.err, "engine_silent", "")
	}
	return row(known.info)
}

// reached asks one engine. One that isn't there is no fault where the other
// is.
func (e *engines) reached(ctx context.Context, name string) Result {
	r := e.row(ctx, name, func(info container.Info) Result {
		return ok(fmt.Sprintf("%s, API %s, at %s", info.Version, info.API, info.Endpoint))
	})
	if r.Status == Fail {
		r.Status = Warn
	}
	return r
}

// withEngine opens the engine that a launch would take.
func withEngine(ctx context.Context, choice engine.Choice, ask func(context.Context, *engine.Engine, container.Info) error) error {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	e, err := engine.Open(ctx, choice)
	if err != nil {
		return err
	}
	info, err := e.Info(ctx)
	if err == nil {
		err = ask(ctx, e, info)
	}
	return errors.Join(err, e.Close())
}

func (e *engines) chosenRow(info container.Info) Result {
	by := "at one of the usual places"
	if named := e.choice.NamedBy(info.Provider); named != "" {
		by = "named by " + named
	}
	return ok(fmt.Sprintf("%s %s (%s, cgroup v%d), %s", info.Provider, info.Version, info.Runtime, info.Cgroup, by))
}

func userRow(info container.Info) Result {
	switch {
	case info.Rootless:
		return ok("rootless: what leaves a container is no more than you")
	case info.Remapped:
		return ok("root, with userns-remap, which pinfold leaves for each container: files keep their owner")
	}
	return ok("root: who may talk to it is as good as root")
}

// limitsRow names the limits that a policy may set here.
func limitsRow(info container.Info) Result {
	var can, cannot []string
	for _, l := range []struct {
		name string
		can  bool
	}{{"cpus", info.CanLimit.CPU}, {"memory", info.CanLimit.Memory && info.CanLimit.Swap}, {"pids", info.CanLimit.PIDs}} {
		if l.can {
			can = append(can, l.name)
		} else {
			cannot = append(cannot, l.name)
		}
	}
	if len(cannot) == 0 {
		return ok(strings.Join(can, ", "))
	}
	return warn("limits_unavailable", info.Provider+" can't limit "+strings.Join(cannot, ", ")+" here: a policy that does is refused",
		words("use an engine that runs as root, or give the user the controllers (cgroup v2)"))
}

// restartRow says what a restart of the engine does to what runs.
func restartRow(info container.Info) Result {
	if info.LiveRestore {
		return ok("a container outlives the engine")
	}
	return warn("no_live_restore", "a restart of docker ends every container, and their launches with it",
		words(`to keep them running: {"live-restore": true} in /etc/docker/daemon.json`))
}
