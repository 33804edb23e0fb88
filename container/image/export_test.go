package image

// Bases are the images that a Dockerfile starts from.
var Bases = bases
