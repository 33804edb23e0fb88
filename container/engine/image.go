package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"pinfold/container"
	"pinfold/policy"
)

// Resolve finds a local image. Nothing is ever pulled.
func (e *Engine) Resolve(ctx context.Context, name string) (container.Image, error) {
	if err := checkImageName(name); err != nil {
		return container.Image{}, err
	}
	var got imageInspect
	err := e.client.call(ctx, request{method: "GET", path: "/images/" + name + "/json"}, &got)
	switch {
	case isStatus(err, http.StatusNotFound):
		return container.Image{}, e.missing(name, err)
	case err != nil:
		return container.Image{}, fmt.Errorf("cannot look at image %q with %s: %w", name, e.name, err)
	}
	id := imageID(got.ID)
	if !container.IsImageID(id) {
		return container.Image{}, fmt.Errorf("cannot look at image %q: its ID is %q", name, got.ID)
	}
	img := container.Image{
		Name: name, ID: id, Arch: got.Architecture, OS: got.Os, Created: moments(got.Created), Size: got.Size,
		Entrypoint: got.Config.Entrypoint, Cmd: got.Config.Cmd, Env: got.Config.Env, User: got.Config.User,
		Dir: got.Config.WorkingDir, Labels: got.Config.Labels, Tags: got.RepoTags, Digests: got.RepoDigests,
	}
	for v := range got.Config.Volumes {
		img.Volumes = append(img.Volumes, v)
	}
	slices.Sort(img.Volumes)
	return img, nil
}

// missing is what there is to say of an image that isn't there. An ID alone
// can't be pulled.
func (e *Engine) missing(name string, err error) error {
	fix := e.name + " pull " + name
	if container.IsImageID(name) {
		fix = "pull it by its name (" + e.name + " images --no-trunc lists the IDs that are there)"
	}
	return &policy.Refusal{
		Reason: policy.Unavailable, Code: "image_missing", Subject: name,
		Why: fmt.Sprintf("cannot use image %q: %s has no such image, and pinfold pulls none", name, e.name),
		Fix: fix + ", or build one with container.build", Err: err,
	}
}

// moments reads a time that decides nothing.
func moments(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return t
}

// Images lists the local images that carry all of the labels.
func (e *Engine) Images(ctx context.Context, labels map[string]string) ([]container.Image, error) {
	filters, err := json.Marshal(map[string][]string{"label": labelFilters(labels)})
	if err != nil {
		return nil, err
	}
	var ids []struct {
		ID string `json:"Id"`
	}
	q := url.Values{"filters": {string(filters)}}
	if err := e.client.call(ctx, request{method: "GET", path: "/images/json", query: q}, &ids); err != nil {
		return nil, fmt.Errorf("cannot list the images of %s: %w", e.name, err)
	}
	var out []container.Image
	for _, i := range ids {
		img, err := e.Resolve(ctx, imageID(i.ID))
		if err != nil {
			return nil, err
		}
		if container.HasLabels(img.Labels, labels) && !slices.ContainsFunc(out, func(o container.Image) bool { return o.ID == img.ID }) {
			out = append(out, img)
		}
	}
	return out, nil
}

// RemoveImage removes an image by ID with its tags, unless a container needs
// it.
func (e *Engine) RemoveImage(ctx context.Context, id string) error {
	img, err := e.Resolve(ctx, id)
	if r, ok := errors.AsType[*policy.Refusal](err); ok && r.Code == "image_missing" {
		return nil
	}
	if err != nil {
		return err
	}
	// By name first: an image of several tags isn't removed by its ID.
	for _, name := range append(slices.Clone(img.Tags), id) {
		err := e.client.call(ctx, request{method: "DELETE", path: "/images/" + name}, nil)
		if isStatus(err, http.StatusConflict) {
			return fmt.Errorf("cannot remove image %q: %w", name, container.ErrImageUsed)
		}
		if err != nil && !isStatus(err, http.StatusNotFound) {
			return fmt.Errorf("cannot remove image %q: %w", name, err)
		}
	}
	return nil
}

// Build builds an image from a context, a tar stream with a Dockerfile at the
// path named, and tags it. What the engine says on the way goes to progress.
func (e *Engine) Build(ctx context.Context, tar io.Reader, dockerfile, tag string, labels map[string]string, progress io.Writer) (err error) {
	text, err := json.Marshal(labels)
	if err != nil {
		return err
	}
	q := url.Values{
		"dockerfile": {dockerfile}, "t": {tag}, "labels": {string(text)}, "rm": {"1"}, "forcerm": {"1"},
	}
	resp, err := e.client.do(ctx, request{method: "POST", path: "/build", query: q, stream: tar, contentType: "application/x-tar"})
	if err != nil {
		return fmt.Errorf("cannot build with %s: %w", e.name, err)
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if err := followBuild(resp.Body, progress); err != nil {
		return fmt.Errorf("cannot build with %s: %w", e.name, err)
	}
	return nil
}

// followBuild reads the stream of a build to its end.
func followBuild(r io.Reader, progress io.Writer) error {
	d := json.NewDecoder(r)
	for {
		var line struct {
			Stream string `json:"stream"`
			Status string `json:"status"`
			Error  string `json:"error"`
		}
		err := d.Decode(&line)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case line.Error != "":
			return errors.New(strings.TrimSpace(line.Error))
		}
		text := line.Stream
		if line.Status != "" {
			text = line.Status + "\n"
		}
		if _, err := io.WriteString(progress, text); err != nil {
			return err
		}
	}
}

// Load imports an image from a tar stream in docker's format.
func (e *Engine) Load(ctx context.Context, tar io.Reader) error {
	err := e.client.call(ctx, request{method: "POST", path: "/images/load", query: url.Values{"quiet": {"1"}}, stream: tar, contentType: "application/x-tar"}, nil)
	if err != nil {
		return fmt.Errorf("cannot load an image into %s: %w", e.name, err)
	}
	return nil
}
