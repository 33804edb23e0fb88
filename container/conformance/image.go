package conformance

import (
	"crypto/sha256"
	"encoding/hex"

	"pinfold/container/image"
)

// Image is an image for a test to load.
type Image = image.Plain

// File is a file of an [Image].
type File = image.File

// ImageConfig is what an [Image] says of how it wants to run.
type ImageConfig = image.Config

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
