package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/gofrs/flock"

	"pinfold/container"
	"pinfold/policy"
)

// Engine is what building asks of an engine.
type Engine interface {
	Name() string
	Resolve(ctx context.Context, image string) (container.Image, error)
	Build(ctx context.Context, tar io.Reader, dockerfile, tag string, labels map[string]string, progress io.Writer) error
	Images(ctx context.Context, labels map[string]string) ([]container.Image, error)
	RemoveImage(ctx context.Context, id string) error
}

// LabelBuild is on every image that was built: the digest of its source.
const LabelBuild = "dev.pinfold.build"

// repository holds the images that were built. With "localhost" in front no
// engine takes it for a registry's.
const repository = "localhost/pinfold/build"

// Options are the caller's choices.
type Options struct {
	// State is a directory of ours: for the lock, and for what is sent.
	State string
	// Progress takes what the builder says; nil drops it.
	Progress io.Writer
	// Began is told once that a build begins; nil tells nobody.
	Began func(tag string)
}

// Tag is the name of an image by its source's digest.
func Tag(digest string) string { return repository + ":" + digest }

// Ensure finds the image of a source, or builds it. Of several that want the
// same one at once, one builds and the others wait.
func Ensure(ctx context.Context, e Engine, s Source, o Options) (container.Image, error) {
	digest, err := s.Digest(ctx)
	if err != nil {
		return container.Image{}, err
	}
	if s.trusted != "" && digest != s.trusted {
		return container.Image{}, s.untrusted()
	}
	img, err := find(ctx, e, digest)
	if err == nil || !isMissing(err) {
		return img, err
	}
	unlock, err := lock(ctx, o.State, digest)
	if err != nil {
		return container.Image{}, err
	}
	defer unlock()
	img, err = find(ctx, e, digest)
	if err == nil || !isMissing(err) {
		return img, err
	}
	return build(ctx, e, s, digest, o)
}

// find looks for an image and believes its name only together with its label:
// anybody can tag an image.
func find(ctx context.Context, e Engine, digest string) (container.Image, error) {
	img, err := e.Resolve(ctx, Tag(digest))
	if err != nil {
		return img, err
	}
	if img.Labels[LabelBuild] != digest {
		return container.Image{}, &policy.Refusal{
			Reason: policy.Denied, Code: "image_not_built", Subject: Tag(digest), Rule: "container.build",
			Why: fmt.Sprintf("cannot use image %s: it has the name of a build of pinfold's, and isn't one", img.ID),
			Fix: e.Name() + " rmi " + Tag(digest),
		}
	}
	return img, nil
}

func isMissing(err error) bool {
	r, ok := errors.AsType[*policy.Refusal](err)
	return ok && r.Code == "image_missing"
}

// lock keeps others from building the same image meanwhile.
func lock(ctx context.Context, state, digest string) (unlock func(), err error) {
	dir := filepath.Join(state, "builds")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot lock the build: %w", err)
	}
	l := flock.New(filepath.Join(dir, digest+".lock"))
	ok, err := l.TryLockContext(ctx, lockPause)
	if err != nil || !ok {
		return nil, fmt.Errorf("cannot lock the build: %w", err)
	}
	// The file stays: one that is removed would be two for whoever has it open.
	return func() { l.Close() }, nil
}

func build(ctx context.Context, e Engine, s Source, digest string, o Options) (container.Image, error) {
	if err := checkBases(ctx, e, s); err != nil {
		return container.Image{}, err
	}
	sent, digest2, err := s.spool(ctx, o.State)
	if err != nil {
		return container.Image{}, err
	}
	defer sent.Close()
	if digest2 != digest {
		return container.Image{}, &policy.Refusal{
			Reason: policy.Denied, Code: "context_changed", Subject: s.Context, Rule: "container.build.dockerfile",
			Why: fmt.Sprintf("cannot build: %q changed while it was read", s.Context), Fix: "try again once nothing writes there",
		}
	}
	if o.Began != nil {
		o.Began(Tag(digest))
	}
	last := &tail{w: o.Progress}
	if err := e.Build(ctx, sent, buildFile, Tag(digest), map[string]string{LabelBuild: digest}, last); err != nil {
		return container.Image{}, &policy.Refusal{
			Reason: policy.Unavailable, Code: "build_failed", Subject: "container.build", Rule: "container.build",
			Why: fmt.Sprintf("%v%s", err, last.quote()), Fix: "mend the build; pinfold build shows all of what it says", Err: err,
		}
	}
	return find(ctx, e, digest)
}

// untrusted refuses content that isn't what was trusted with the policy.
func (s Source) untrusted() error {
	return &policy.Refusal{
		Reason: policy.Denied, Code: "policy_changed", Subject: s.Context, Rule: "container.build.dockerfile",
		Why: fmt.Sprintf("cannot build: what is in %q isn't what was trusted along with the policy", s.Context),
		Fix: "look at what changed there, and run 'pinfold trust' for the policy again",
	}
}

// checkBases refuses a build for which the engine would pull an image.
func checkBases(ctx context.Context, e Engine, s Source) error {
	images, err := bases(s.Dockerfile)
	if err != nil {
		return err
	}
	if len(images) == 0 && !bytes.Contains(bytes.ToLower(s.Dockerfile), []byte("scratch")) {
		return &policy.Refusal{
			Reason: policy.Unavailable, Code: "base_unclear", Subject: "container.build", Rule: "container.build",
			Why: "cannot build an image: its Dockerfile has no FROM", Fix: `begin it with "FROM name", or "FROM scratch"`,
		}
	}
	for _, name := range images {
		if _, err := e.Resolve(ctx, name); err != nil {
			return fmt.Errorf("cannot build: %w", err)
		}
	}
	return nil
}

// spool writes what is sent into a file without a name, so that what was
// hashed is what is built.
func (s Source) spool(ctx context.Context, state string) (*os.File, string, error) {
	f, err := os.CreateTemp(filepath.Join(state, "builds"), "context-*")
	if err != nil {
		return nil, "", fmt.Errorf("cannot keep the build's context: %w", err)
	}
	h := sha256.New()
	err = os.Remove(f.Name())
	if err == nil {
		err = s.writeContext(ctx, io.MultiWriter(f, h))
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, "", errors.Join(err, f.Close())
	}
	return f, sum(h), nil
}

// tail passes on what a builder says, and keeps its last lines.
type tail struct {
	w    io.Writer
	kept []byte
}

// maxTail is what a message shows of a failed build.
const maxTail = 1000

// Write never fails: a closed terminal ends no build.
func (t *tail) Write(p []byte) (int, error) {
	if t.w != nil {
		if _, err := t.w.Write(p); err != nil {
			t.w = nil
		}
	}
	t.kept = append(t.kept, p...)
	if len(t.kept) > maxTail {
		t.kept = t.kept[len(t.kept)-maxTail:]
	}
	return len(p), nil
}

// colours are what docker paints a step's standard error with (ECMA-48, SGR).
const colours = `\x1b\[[0-9;]*m`

// quote is for a message of one line. What was passed on isn't said again.
func (t *tail) quote() string {
	text := strings.TrimSpace(regexp.MustCompile(colours).ReplaceAllString(string(t.kept), ""))
	if text == "" || t.w != nil {
		return ""
	}
	return "; it said last: " + strings.ReplaceAll(text, "\n", " / ")
}
