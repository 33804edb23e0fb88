package image

import (
	"context"
	"errors"
	"slices"
	"time"

	"pinfold/container"
)

// lockPause is how often a lock that another build holds is tried again.
const lockPause = 100 * time.Millisecond

// List are the images that were built, the newest first.
func List(ctx context.Context, e Engine) ([]container.Image, error) {
	images, err := e.Images(ctx, map[string]string{LabelBuild: ""})
	slices.SortFunc(images, func(a, b container.Image) int { return b.Created.Compare(a.Created) })
	return images, err
}

// Prune removes the images that were built and that no container was made
// from. It answers those that it removed.
func Prune(ctx context.Context, e Engine) ([]container.Image, error) {
	images, err := List(ctx, e)
	if err != nil {
		return nil, err
	}
	var removed []container.Image
	var errs []error
	for _, img := range images {
		err := e.RemoveImage(ctx, img.ID)
		switch {
		case err == nil:
			removed = append(removed, img)
		case !errors.Is(err, container.ErrImageUsed):
			errs = append(errs, err)
		}
	}
	return removed, errors.Join(errs...)
}
