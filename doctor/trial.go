package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"pinfold/container"
	"pinfold/container/engine"
	"pinfold/container/image"
	"pinfold/policy"
)

// trial is one launch in a container, which three rows tell of: a container of
// an image that holds a program /bin/true alone, by wrap itself, so that it
// can't lag behind what was built.
type trial struct {
	choice engine.Choice
	made   bool
	result Result
}

func trialChecks(choice engine.Choice) []Check {
	t := &trial{choice: choice}
	return []Check{
		{Name: "shared paths", Run: func(ctx context.Context, h *Host) Result {
			return t.about(ctx, h, sharedCodes, "a directory of the host's is the same inside, at the same path", shareFix)
		}},
		{Name: "hand-over", Run: func(ctx context.Context, h *Host) Result {
			return t.about(ctx, h, handOverCodes,
				"network none: the proxy's listener was handed over by a socket in a shared directory; no stream over the engine's exec is needed", handOverFix)
		}},
		{Name: "container tier", Run: t.run},
	}
}

// What a launch is refused with where the engine shows the container something
// else than the host's own directories, and where nothing could be handed over.
var (
	sharedCodes   = []string{"boundary_mismatch", "canary_failed", "no_mount_point"}
	handOverCodes = []string{"listen_failed", "stub_failed", "engine_remote"}
)

const (
	shareFix    = "# the engine sees other files than pinfold does: call pinfold where the engine runs, or show both the same directories at the same paths"
	handOverFix = "# use an engine on this machine's own kernel, by its unix socket: a stream over the engine's exec isn't built yet"
)

// about is a row of what a launch goes through on the way.
func (t *trial) about(ctx context.Context, h *Host, codes []string, seen, fix string) Result {
	switch r := t.run(ctx, h); {
	case r.Status == OK:
		return ok(seen)
	case slices.Contains(codes, r.Code) || h.unseen(r) && slices.Contains(codes, sharedCodes[0]):
		return fail(r.Code, r.Seen, fix)
	}
	return unknown("launch_unknown", "the launch didn't come that far")
}

// unseen: the engine speaks of a directory of pinfold's own, which is surely
// there, as one that can't be mounted.
func (h *Host) unseen(r Result) bool {
	return r.Code == "engine_failed" && h.State != "" && strings.Contains(r.Seen, h.State+"/")
}

// run is the launch, once.
func (t *trial) run(ctx context.Context, h *Host) Result {
	if h.Probe == nil {
		return unknown("launch_unknown", "nothing was started")
	}
	if t.made {
		return t.result
	}
	t.made = true
	err := withEngine(ctx, t.choice, func(ctx context.Context, e *engine.Engine, info container.Info) (err error) {
		t.result, err = h.tryContainer(ctx, e, info)
		return err
	})
	if err != nil {
		t.result = refused(err, "launch_unknown", "")
	}
	t.result.launched = true
	return t.result
}

// tryContainer puts the image into the engine for one launch, with something to
// share and something to hand over.
func (h *Host) tryContainer(ctx context.Context, e *engine.Engine, info container.Info) (r Result, err error) {
	plain, err := image.Trial(info.Arch)
	if err != nil {
		return r, err
	}
	archive, id, err := plain.Tar()
	if err != nil {
		return r, err
	}
	if err := e.Load(ctx, bytes.NewReader(archive)); err != nil {
		return refused(err, "image_failed", ""), nil
	}
	document, err := json.Marshal(map[string]any{
		"version": 1, "tier": policy.TierContainer, "write": []string{"{workspace}"},
		"network":   map[string]any{"allow": []string{"example.com:443"}},
		"container": map[string]any{"runtime": e.Name(), "image": id},
	})
	if err == nil {
		r = h.launch(ctx, string(document))
	}
	// Another doctor may be at it.
	if removed := e.RemoveImage(ctx, id); removed != nil && !errors.Is(removed, container.ErrImageUsed) && r.Status == OK {
		r = unknown("image_left", removed.Error())
	}
	return r, err
}
