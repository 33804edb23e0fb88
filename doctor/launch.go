package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"pinfold/policy"
)

// Launch is the real thing: true under a policy document, by the code of wrap.
func Launch(name, document string) Check {
	return Check{Name: name, Run: func(ctx context.Context, h *Host) Result {
		return h.launch(ctx, document)
	}}
}

func (h *Host) launch(ctx context.Context, document string) Result {
	if h.Probe == nil {
		return unknown("launch_unknown", "nothing was started")
	}
	return h.launched(h.Probe.Launch(ctx, document))
}

// launched is the row of a launch that was tried. What a row above says to do
// isn't said again.
func (h *Host) launched(err error) Result {
	r := ok("true ran")
	if err != nil {
		r = refused(err, "launch_failed", "")
	}
	if h.helped {
		r.Fix = ""
		r.Seen, _, _ = strings.Cut(r.Seen, " (doctor: ") // wrap has asked these rows too
	}
	r.launched = true
	return r
}

// LaunchFile asks whether a launch under the policy in a file works, exactly
// as wrap would be given it.
func LaunchFile(name, file string) Check {
	return Check{Name: name, Run: func(ctx context.Context, h *Host) Result {
		if h.Probe == nil {
			return unknown("launch_unknown", "nothing was started")
		}
		return h.launched(h.Probe.LaunchFile(ctx, file))
	}}
}

// Requirements asks for each layer that a policy insists on, alone: a refused
// launch names the first that is missing, and these name them all.
func Requirements(names []string) []Check {
	var checks []Check
	for _, name := range names {
		checks = append(checks, Check{Name: "require " + name, Run: func(ctx context.Context, h *Host) Result {
			document, err := json.Marshal(map[string]any{"version": 1, "require": []string{name}})
			if err != nil {
				return unknown("launch_unknown", err.Error())
			}
			r := h.launch(ctx, string(document))
			if r.Status == OK {
				r.Seen = "in force"
			}
			return r
		}})
	}
	return checks
}

// grantsPolicy uses a write grant, a deny, a host and, where there is "%s", a
// socket: the placeholder stands for one that somebody listens on.
const grantsPolicy = `{"version": 1, "write": ["{workspace}"], "read": {"deny": ["{workspace}/denied"]}, "network": {"allow": ["example.com:443"]}%s}`

const withSocket = `, "sockets": ["{toolbelt}"]`

// checkGrants launches with all of it, and without the socket where this
// machine can't tell one socket from another: the rest still works there.
func checkGrants(ctx context.Context, h *Host) Result {
	if h.Probe == nil {
		return unknown("launch_unknown", "nothing was started")
	}
	err := h.Probe.Launch(ctx, strings.Replace(grantsPolicy, "%s", withSocket, 1))
	r, isRefusal := errors.AsType[*policy.Refusal](err)
	if !isRefusal || r.Code != "field_unavailable" || r.Subject != "sockets" {
		return h.launched(err)
	}
	if err := h.Probe.Launch(ctx, strings.Replace(grantsPolicy, "%s", "", 1)); err != nil {
		return h.launched(err)
	}
	row := warn("sockets_unavailable", "true ran, but no policy may list sockets: "+r.Why, words(oneLine(r.Fix)))
	row.launched = true
	return row
}
