package engine

import (
	"fmt"
	"strings"

	"pinfold/policy"
)

// checkImageName refuses what is no image's name: it becomes part of the
// API's path.
func checkImageName(name string) error {
	const legal = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@"
	if name != "" && len(name) < 512 && strings.Trim(name, legal) == "" && !strings.Contains(name, "..") && !strings.Contains(name, "//") && name[0] != '/' && name[0] != '-' {
		return nil
	}
	return &policy.Refusal{
		Reason: policy.Denied, Code: "image_name", Subject: name, Rule: "container.image",
		Why: fmt.Sprintf("cannot use image %q: that is no name of an image", name),
		Fix: `"image": "name@sha256:…", or "sha256:…" for a local one`,
	}
}
