package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"pinfold/container"
)

// Create makes the container and doesn't start it.
func (e *Engine) Create(ctx context.Context, s container.Spec) (container.Ref, error) {
	if err := errors.Join(checkSpec(s), checkSources(s)); err != nil {
		return container.Ref{}, err
	}
	info, err := e.Info(ctx)
	if err != nil {
		return container.Ref{}, err
	}
	made, err := e.create(ctx, s)
	if err != nil {
		return container.Ref{}, fmt.Errorf("cannot create a container with %s: %w", e.name, err)
	}
	r := container.Ref{Provider: e.name, Daemon: info.Identity, Endpoint: e.endpoint, ID: made.ID}
	if !isID(made.ID) {
		return container.Ref{}, fmt.Errorf("cannot create a container with %s: it names the container %q", e.name, made.ID)
	}
	return r, nil
}

func (e *Engine) create(ctx context.Context, s container.Spec) (made createResponse, err error) {
	filter := string(s.Seccomp)
	if e.podman {
		name, remove, err := profileFile(s.Seccomp)
		if err != nil {
			return made, err
		}
		defer func() { err = errors.Join(err, remove()) }()
		filter = name
	}
	q := url.Values{}
	if s.Name != "" {
		q.Set("name", s.Name)
	}
	return e.askToCreate(ctx, q, s, filter)
}

// checkSpec refuses what would have an engine decide something for itself.
func checkSpec(s container.Spec) error {
	switch {
	case !container.IsImageID(s.Image):
		return fmt.Errorf("internal error: image %q isn't pinned", s.Image)
	case len(s.Entrypoint) == 0 || len(s.Seccomp) == 0 || s.Limits.PIDs <= 0 && s.Limits.Processes <= 0:
		return errors.New("internal error: a container without entry point, filter or bound on processes")
	case s.Labels[container.LabelHost] == "":
		return errors.New("internal error: a container without a label of its owner")
	}
	return nil
}

// checkSources refuses a bind of what isn't there. Docker does so by itself;
// podman's docker-like API makes an empty directory. One that goes away after
// this look is found by the stub, which knows what has to stand there.
func checkSources(s container.Spec) error {
	for _, m := range s.Mounts {
		if _, err := os.Lstat(m.Source); err != nil {
			return fmt.Errorf("cannot mount %q: %w", m.Source, err)
		}
	}
	return nil
}

func isID(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// path is the API's path of something done to a container.
func (e *Engine) path(r container.Ref, what string) string {
	return "/containers/" + url.PathEscape(r.ID) + what
}

// own refuses a reference to another engine's container: an ID that this one
// doesn't know would look like one that is gone.
func (e *Engine) own(ctx context.Context, r container.Ref) error {
	info, err := e.Info(ctx)
	switch {
	case err != nil:
		return err
	case !isID(r.ID):
		return fmt.Errorf("cannot ask %s for container %q: that is no whole ID", e.name, r.ID)
	case r.Provider != e.name || r.Daemon != info.Identity:
		return fmt.Errorf("cannot ask %s for container %.12s: %w (%s made it, %s answers)", e.name, r.ID, container.ErrOtherEngine, r.Daemon, info.Identity)
	}
	return nil
}

// Start starts a created container, once.
func (e *Engine) Start(ctx context.Context, r container.Ref) error {
	s, err := e.Inspect(ctx, r)
	switch {
	case err != nil:
		return err
	case s.Status == container.Gone:
		return e.noContainer("start", r)
	case s.Status != container.Created || !s.StartedAt.IsZero():
		return fmt.Errorf("cannot start container %.12s: it is %s, and a container is started once", r.ID, s.Status)
	}
	err = e.client.call(ctx, request{method: "POST", path: e.path(r, "/start")}, nil)
	if isStatus(err, http.StatusNotModified) {
		err = errors.New("somebody else started it")
	}
	if err != nil {
		return fmt.Errorf("cannot start container %.12s: %w", r.ID, err)
	}
	return nil
}

func (e *Engine) noContainer(what string, r container.Ref) error {
	return fmt.Errorf("cannot %s container %.12s: %w", what, r.ID, container.ErrNoContainer)
}

// Signal sends one signal to pid 1 inside.
func (e *Engine) Signal(ctx context.Context, r container.Ref, sig syscall.Signal) error {
	if err := e.own(ctx, r); err != nil {
		return err
	}
	q := url.Values{"signal": {strconv.Itoa(int(sig))}}
	err := e.client.call(ctx, request{method: "POST", path: e.path(r, "/kill"), query: q}, nil)
	switch {
	case isStatus(err, http.StatusNotFound):
		return e.noContainer("signal", r)
	case err != nil:
		return fmt.Errorf("cannot signal container %.12s: %w", r.ID, err)
	}
	return nil
}

// Stop sends the stop signal, after the grace SIGKILL, and goes by what Inspect says
// then, not by the answer.
func (e *Engine) Stop(ctx context.Context, r container.Ref, grace time.Duration) error {
	if err := e.own(ctx, r); err != nil {
		return err
	}
	seconds := int((grace + time.Second - 1) / time.Second)
	q := url.Values{"t": {strconv.Itoa(seconds)}}
	stopping := e.client.call(ctx, request{method: "POST", path: e.path(r, "/stop"), query: q}, nil)
	s, err := e.Inspect(ctx, r)
	if err == nil {
		s, err = e.untilRemoved(ctx, s)
	}
	switch {
	case err != nil:
		return errors.Join(stopping, err)
	case s.Alive():
		return errors.Join(fmt.Errorf("cannot stop container %.12s: it is still %s", r.ID, s.Status), stopping)
	}
	return nil
}

// Inspect asks for one container.
func (e *Engine) Inspect(ctx context.Context, r container.Ref) (container.State, error) {
	if err := e.own(ctx, r); err != nil {
		return container.State{}, err
	}
	return e.inspect(ctx, r)
}

func (e *Engine) inspect(ctx context.Context, r container.Ref) (container.State, error) {
	s, err := e.inspectOnce(ctx, r)
	if err != nil {
		return s, err
	}
	return e.unseenEnd(ctx, r, s)
}

func (e *Engine) inspectOnce(ctx context.Context, r container.Ref) (container.State, error) {
	var got inspectResponse
	err := e.client.look(ctx, request{method: "GET", path: e.path(r, "/json")}, &got)
	switch {
	case isStatus(err, http.StatusNotFound):
		if err := e.still(ctx, r); err != nil {
			return container.State{}, err
		}
		return container.State{Ref: r, Status: container.Gone}, nil
	case err != nil:
		return container.State{}, fmt.Errorf("cannot inspect container %.12s: %w", r.ID, err)
	case got.ID != r.ID:
		return container.State{}, fmt.Errorf("cannot inspect container %.12s: the engine answered for %.12s", r.ID, got.ID)
	}
	return stateOf(r, got)
}

// still asks once more who answers, before a container is called gone: since
// the first time another engine may have taken the socket's place.
func (e *Engine) still(ctx context.Context, r container.Ref) error {
	info, err := e.ask(ctx)
	if err != nil {
		return fmt.Errorf("cannot tell whether container %.12s is gone: %w", r.ID, err)
	}
	if info.Identity != r.Daemon {
		return fmt.Errorf("cannot tell whether container %.12s is gone: %w (%s made it, %s answers)", r.ID, container.ErrOtherEngine, r.Daemon, info.Identity)
	}
	return nil
}

func stateOf(r container.Ref, got inspectResponse) (container.State, error) {
	s := container.State{
		Ref: r, Name: strings.TrimPrefix(got.Name, "/"), Status: statusOf(got), Pid: got.State.Pid,
		ExitCode: got.State.ExitCode, OOM: got.State.OOMKilled, Error: got.State.Error,
		CreatedAt: got.Created, Labels: got.Config.Labels, ImageID: imageID(got.Image),
	}
	var err error
	if s.StartedAt, err = moment(got.State.StartedAt); err != nil {
		return container.State{}, err
	}
	if s.FinishedAt, err = moment(got.State.FinishedAt); err != nil {
		return container.State{}, err
	}
	for _, m := range got.Mounts {
		if m.Type == "bind" {
			s.Sources = append(s.Sources, m.Source)
		}
	}
	slices.Sort(s.Sources)
	return s, nil
}

// statusOf reads podman's words too: "stopped" is one that has ended and
// wasn't tidied up yet, "configured" and "initialized" one that didn't start.
func statusOf(got inspectResponse) container.Status {
	switch got.State.Status {
	case "configured", "initialized":
		return container.Created
	case "stopped":
		return container.Exited
	}
	return container.Status(got.State.Status)
}

// imageID has the algorithm in front, which podman leaves out.
func imageID(id string) string {
	if isID(id) {
		return "sha256:" + id
	}
	return id
}

// moment reads a time; the year 1 is never.
func moment(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("cannot read the engine's time %q: %w", text, err)
	}
	if t.Year() <= 1970 {
		return time.Time{}, nil
	}
	return t, nil
}

// List asks for every container with all of the labels. What the listing
// leaves out of a container is asked for one by one; the labels are compared
// again here.
func (e *Engine) List(ctx context.Context, labels map[string]string) ([]container.State, error) {
	info, err := e.Info(ctx)
	if err != nil {
		return nil, err
	}
	if len(labels) == 0 {
		return nil, errors.New("internal error: a listing of everybody's containers")
	}
	filters, err := json.Marshal(map[string][]string{"label": labelFilters(labels)})
	if err != nil {
		return nil, err
	}
	var entries []listEntry
	q := url.Values{"all": {"1"}, "filters": {string(filters)}}
	if err := e.client.look(ctx, request{method: "GET", path: "/containers/json", query: q}, &entries); err != nil {
		return nil, fmt.Errorf("cannot list the containers of %s: %w", e.name, err)
	}
	var out []container.State
	for _, entry := range entries {
		s, err := e.inspect(ctx, container.Ref{Provider: e.name, Daemon: info.Identity, Endpoint: e.endpoint, ID: entry.ID})
		if err != nil {
			return nil, err
		}
		if s.Status != container.Gone && container.HasLabels(s.Labels, labels) {
			out = append(out, s)
		}
	}
	return out, nil
}

func labelFilters(labels map[string]string) []string {
	var out []string
	for name, value := range labels {
		if value == "" {
			out = append(out, name)
			continue
		}
		out = append(out, name+"="+value)
	}
	slices.Sort(out)
	return out
}

// Remove kills and removes a container with the volumes that it alone has.
func (e *Engine) Remove(ctx context.Context, r container.Ref) error {
	if err := e.own(ctx, r); err != nil {
		return err
	}
	q := url.Values{"force": {"1"}, "v": {"1"}}
	removing := e.client.call(ctx, request{method: "DELETE", path: e.path(r, ""), query: q}, nil)
	if removing == nil {
		return nil
	}
	if isStatus(removing, http.StatusNotFound) {
		return e.still(ctx, r)
	}
	// Somebody else may be removing it at this moment.
	s, err := e.inspect(ctx, r)
	if err == nil {
		s, err = e.untilRemoved(ctx, s)
	}
	if err == nil && s.Status == container.Gone {
		return nil
	}
	return fmt.Errorf("cannot remove container %.12s: %w", r.ID, removing)
}

// removalTime is how long a removal may take that somebody else began.
const removalTime = 30 * time.Second

// untilRemoved waits for the end of a removal: an engine goes on with one whose
// caller was killed, and refuses a second.
func (e *Engine) untilRemoved(ctx context.Context, s container.State) (container.State, error) {
	ctx, cancel := context.WithTimeout(ctx, removalTime)
	defer cancel()
	for s.Status == container.Removing {
		select {
		case <-ctx.Done():
			return s, nil // it is what it is
		case <-time.After(firstPause):
		}
		now, err := e.inspect(ctx, s.Ref)
		if err != nil {
			return s, err
		}
		s = now
	}
	return s, nil
}
