package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"pinfold/container"
	"pinfold/container/engine"
	"pinfold/container/image"
	"pinfold/policy"
)

// engineTimeout bounds what an engine is asked: one that hangs is an answer.
const engineTimeout = 20 * time.Second

// ContainerChecks are the rows of the container tier: each engine, what the
// one that a launch would take can do, and a launch.
func ContainerChecks(choice engine.Choice) []Check {
	var checks []Check
	for _, name := range engine.Names() {
		checks = append(checks, Check{Name: name, Run: func(ctx context.Context, _ *Host) Result { return checkEngine(ctx, choice, name) }})
	}
	checks = append(checks, Check{Name: "engine", Run: func(ctx context.Context, _ *Host) Result { return infoRow(ctx, choice, chosenRow) }})
	for _, c := range []struct {
		name string
		row  func(container.Info) Result
	}{{"engine user", userRow}, {"container limits", limitsRow}, {"container restarts", restartRow}} {
		checks = append(checks, Check{Name: c.name, Run: func(ctx context.Context, _ *Host) Result {
			r := infoRow(ctx, choice, c.row)
			if r.Status == Fail { // the row above has said why
				r = unknown(r.Code, "no engine to ask")
			}
			return r
		}})
	}
	return append(checks, containerLaunch(choice))
}

func infoRow(ctx context.Context, choice engine.Choice, row func(container.Info) Result) Result {
	return withEngine(ctx, choice, func(_ context.Context, _ *engine.Engine, info container.Info) Result { return row(info) })
}

// checkEngine asks one engine. One that isn't there is no fault where the
// other is.
func checkEngine(ctx context.Context, choice engine.Choice, name string) Result {
	choice.Runtime = name
	r := infoRow(ctx, choice, func(info container.Info) Result {
		return ok(fmt.Sprintf("%s, API %s, at %s", info.Version, info.API, info.Endpoint))
	})
	if r.Status == Fail {
		r.Status = Warn
	}
	return r
}

// withEngine opens the engine that a launch would take.
func withEngine(ctx context.Context, choice engine.Choice, ask func(context.Context, *engine.Engine, container.Info) Result) Result {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	e, err := engine.Open(ctx, choice)
	if err != nil {
		return refused(err, "engine_unavailable", "")
	}
	info, err := e.Info(ctx)
	if err != nil {
		return refused(errors.Join(err, e.Close()), "engine_silent", "")
	}
	r := ask(ctx, e, info)
	if err := e.Close(); err != nil {
		return unknown("engine_silent", err.Error())
	}
	return r
}

func chosenRow(info container.Info) Result {
	return ok(fmt.Sprintf("%s %s (%s, cgroup v%d)", info.Provider, info.Version, info.Runtime, info.Cgroup))
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

// containerLaunch asks wrap itself, so it can't lag behind what was built: a
// container of an image that holds a program /bin/true alone.
func containerLaunch(choice engine.Choice) Check {
	return Check{Name: "container tier", Run: func(ctx context.Context, h *Host) Result {
		if h.Probe == nil {
			return unknown("launch_unknown", "nothing was started")
		}
		r := withEngine(ctx, choice, func(ctx context.Context, e *engine.Engine, info container.Info) Result {
			return h.tryContainer(ctx, e, info)
		})
		r.launched = true
		return r
	}}
}

func (h *Host) tryContainer(ctx context.Context, e *engine.Engine, info container.Info) (r Result) {
	trial, err := image.Trial(info.Arch)
	if err != nil {
		return unknown("launch_unknown", err.Error())
	}
	archive, id, err := trial.Tar()
	if err == nil {
		err = e.Load(ctx, bytes.NewReader(archive))
	}
	if err != nil {
		return refused(err, "image_failed", "")
	}
	defer func() {
		// Another doctor may be at it.
		if err := e.RemoveImage(ctx, id); err != nil && !errors.Is(err, container.ErrImageUsed) && r.Status == OK {
			r = unknown("image_left", err.Error())
		}
	}()
	document, err := json.Marshal(map[string]any{
		"version": 1, "tier": policy.TierContainer, "write": []string{"{workspace}"},
		"container": map[string]any{"runtime": e.Name(), "image": id},
	})
	if err != nil {
		return unknown("launch_unknown", err.Error())
	}
	return h.launch(ctx, string(document))
}
