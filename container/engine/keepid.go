package engine

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"pinfold/container"
)

// keepID is podman's user namespace in which the caller stays who he is.
const keepID = "keep-id"

// turnPause is how often a turn that another launch has is asked for again; a
// creation takes about 50 ms.
const turnPause = 10 * time.Millisecond

// turnTime is how long a turn is waited for: more than what a hundred launches
// need, and no reason not to start at all.
const turnTime = 30 * time.Second

// triesOfKeepID is how often a creation is asked for that fails for want of
// subordinate IDs. Somebody else's creation, which takes no turn, may have been
// in its way.
const triesOfKeepID = 5

// askToCreate asks for the container's creation, in turn where that matters.
func (e *Engine) askToCreate(ctx context.Context, q url.Values, s container.Spec, filter string) (made createResponse, err error) {
	create := request{method: "POST", path: "/containers/create", query: q, body: e.createRequestOf(s, filter)}
	if s.Userns != keepID {
		return made, e.client.call(ctx, create, &made)
	}
	done, err := takeTurn(ctx, e.endpoint)
	if err != nil {
		return made, err
	}
	defer done()
	for range triesOfKeepID {
		if err = e.client.call(ctx, create, &made); !lacksIDs(err) {
			break
		}
	}
	return made, err
}

// lacksIDs reports podman's word that a user has no subordinate IDs. Nothing
// was made then.
func lacksIDs(err error) bool {
	e, ok := errors.AsType[*statusError](err)
	return ok && e.Status == http.StatusInternalServerError && strings.Contains(e.Message, "keep-id requires additional UIDs or GIDs")
}
