package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"pinfold/container"
	"pinfold/container/engine"
	"pinfold/container/image"
	"pinfold/policy"
)

func (p *program) buildCommand() *cli.Command {
	f := &launchFlags{}
	return &cli.Command{
		Name:  "build",
		Usage: "build the image that a policy's container.build describes, unless it is there",
		Flags: []cli.Flag{
			one("policy", "build what the policy in `FILE` says", &f.policy),
			one("workspace", "{workspace} is `DIR` (default: the current directory)", &f.workspace),
			one("home", "{home} is `DIR`", &f.home),
			one("user", "build as user `NAME` (root only)", &f.user),
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return &usageError{why: "cannot build anything by name: build takes flags alone", fix: "pinfold build [--policy FILE]"}
			}
			l, err := p.prepare(f, []string{"true"})
			if err == nil {
				err = p.build(c.Context, l)
			}
			return errors.Join(err, l.removeFresh(err))
		},
	}
}

// build warms what the next launch would build.
func (p *program) build(ctx context.Context, l *prepared) (err error) {
	if l.policy.Container.Build == nil {
		return &policy.Refusal{
			Reason: policy.Denied, Code: "nothing_to_build", Subject: "container.build",
			Why: "cannot build: the policy has no container.build", Fix: `"container": {"build": {"base": …, "install": […]}}`,
		}
	}
	e, err := engine.Open(ctx, l.choice())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	img, err := l.builtImage(ctx, e, p.Err)
	if err != nil {
		return err
	}
	return p.print(false, nil, img.ID)
}

// engineChoice is which engine the caller and the operator want.
func (p *program) engineChoice() (engine.Choice, error) {
	if err := p.loadSettings(); err != nil {
		return engine.Choice{}, err
	}
	home, err := homeDir("")
	if err != nil {
		return engine.Choice{}, err
	}
	return engine.Choice{Default: p.settings.Engine, Env: os.Getenv, Home: home, UID: os.Geteuid()}, nil
}

// choice is which engine the policy wants, before all others.
func (l *prepared) choice() engine.Choice {
	return engine.Choice{
		Runtime: l.policy.Container.Runtime, Context: l.policy.Container.Context, Default: l.program.settings.Engine,
		Env: os.Getenv, Home: l.request.Home, UID: l.request.UID, Memory: l.request.State,
	}
}

// image is what to run: the policy's, what it says to build, or the caller's
// where it names neither.
func (l *prepared) image(ctx context.Context, e *engine.Engine) (string, error) {
	c := l.policy.Container
	switch {
	case c.Image != "":
		return c.Image, nil
	case c.Build != nil:
		img, err := l.builtImage(ctx, e, nil)
		return img.ID, err
	}
	if name := os.Getenv("PINFOLD_IMAGE"); name != "" {
		return name, nil
	}
	return "", &policy.Refusal{
		Reason: policy.Denied, Code: "image_unset", Subject: "container.image", Rule: "container",
		Why: "cannot run a container: neither the policy nor $PINFOLD_IMAGE says which image",
		Fix: `name one by digest: "container": {"image": "name@sha256:…"}, or say how to build it (container.build)`,
	}
}

// builtImage finds or builds the image of container.build. progress takes what
// the builder says; nil is for a launch, which shows it on a terminal alone.
func (l *prepared) builtImage(ctx context.Context, e *engine.Engine, progress io.Writer) (container.Image, error) {
	b := l.policy.Container.Build
	dockerfile := ""
	if b.Dockerfile != nil {
		var err error
		if dockerfile, err = policy.Expand(*b.Dockerfile, l.vars()); err != nil {
			return container.Image{}, err
		}
		dockerfile = canonical(dockerfile)
	}
	source, err := image.Lower(b, dockerfile, l.forbidden())
	if err != nil {
		return container.Image{}, err
	}
	if progress == nil && !l.program.quiet && isWatched(l.program.Err) {
		progress = l.program.Err
	}
	return image.Ensure(ctx, e, source, image.Options{State: l.request.State, Progress: progress, Began: func(tag string) {
		l.program.notice("building the image %s", tag)
	}})
}

// forbidden are the paths that no build may be sent: what the policy or a
// default denies, what the caller protects, and pinfold's own state.
func (l *prepared) forbidden() []string {
	r := l.request
	paths := append([]string{r.State, r.Record}, l.protected...)
	lifted := map[string]bool{}
	for _, a := range l.policy.Read.Allow {
		if p, err := policy.Expand(a, l.vars()); err == nil {
			lifted[p] = true
		}
	}
	for _, d := range policy.DefaultDenies(policy.DefaultContext{
		GOOS: runtime.GOOS, UID: r.UID, Home: r.Home, RuntimeDir: r.Runtime, SSHAuthSock: r.SSHAuthSock, Env: r.Variable,
	}) {
		if !lifted[d.Path] {
			paths = append(paths, d.Path)
		}
	}
	for _, d := range l.policy.Read.Deny {
		if p, err := policy.Expand(d, l.vars()); err == nil {
			paths = append(paths, p)
		}
	}
	var out []string
	for _, p := range paths {
		if p != "" {
			out = append(out, p, canonical(p))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// canonical is a path without symbolic links, as far as it exists.
func canonical(path string) string {
	if c, err := filepath.EvalSymlinks(path); err == nil {
		return c
	}
	return path
}

func (p *program) imagesCommand() *cli.Command {
	var runtimeName string
	var asJSON bool
	return &cli.Command{
		Name:      "images",
		Usage:     "list the images that pinfold built, or remove those that no container was made from",
		ArgsUsage: "[prune]",
		Flags: []cli.Flag{
			one("runtime", "ask `docker|podman` alone (default: every one that answers)", &runtimeName),
			yes("json", "print them as JSON", &asJSON),
		},
		Action: func(c *cli.Context) error {
			if c.NArg() > 1 || c.NArg() == 1 && c.Args().First() != "prune" {
				return &usageError{why: "cannot do that with images: only prune is known", fix: "pinfold images [prune]"}
			}
			return p.images(c.Context, runtimeName, c.NArg() == 1, asJSON)
		},
	}
}

// builtImages is one line of the listing.
type builtImage struct {
	Engine  string    `json:"engine"`
	ID      string    `json:"id"`
	Tags    []string  `json:"tags,omitempty"`
	Created time.Time `json:"created"`
	Size    int64     `json:"size"`
}

// images asks every engine that answers. One that was named and doesn't
// answer, or fails to list, is an error: never an empty list.
func (p *program) images(ctx context.Context, runtimeName string, prune, asJSON bool) error {
	engines, err := p.engines(ctx, runtimeName)
	if err != nil {
		return err
	}
	list := []builtImage{}
	var errs []error
	for _, e := range engines {
		images, err := imagesOf(ctx, e, prune)
		errs = append(errs, err, e.Close())
		for _, i := range images {
			list = append(list, builtImage{Engine: e.Name(), ID: i.ID, Tags: i.Tags, Created: i.Created, Size: i.Size})
		}
	}
	return errors.Join(append(errs, p.printImages(list, prune, asJSON))...)
}

func imagesOf(ctx context.Context, e *engine.Engine, prune bool) ([]container.Image, error) {
	if prune {
		return image.Prune(ctx, e)
	}
	return image.List(ctx, e)
}

// engines are those that answer, or the one that was named.
func (p *program) engines(ctx context.Context, name string) ([]*engine.Engine, error) {
	choice, err := p.engineChoice()
	if err != nil {
		return nil, err
	}
	if name != "" {
		choice.Runtime = name
		e, err := engine.Open(ctx, choice)
		return []*engine.Engine{e}, err
	}
	var out []*engine.Engine
	var errs []error
	for _, name := range engine.Names() {
		choice.Runtime = name
		e, err := engine.Open(ctx, choice)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, e)
	}
	if len(out) == 0 {
		return nil, errs[0]
	}
	return out, nil
}

func (p *program) printImages(list []builtImage, prune, asJSON bool) error {
	if asJSON {
		return p.print(true, list, "")
	}
	verb := ""
	if prune {
		verb = "removed "
	}
	for _, i := range list {
		tag := i.ID
		if len(i.Tags) > 0 {
			tag = i.Tags[0]
		}
		line := fmt.Sprintf("%s%s %s %.19s %s", verb, i.Engine, tag, i.ID, i.Created.Format(time.DateTime))
		if err := p.print(false, nil, oneLine(line)); err != nil {
			return err
		}
	}
	return nil
}
