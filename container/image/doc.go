// Package image builds the image that a policy describes, once, and finds it
// again: an image is named by the SHA-256 of its Dockerfile and of all that a
// build is sent along with it, so a changed source of a COPY is another image.
//
//	source, err := image.Lower(policy.Container.Build, dockerfile, forbidden)
//	img, err := image.Ensure(ctx, engine, source, image.Options{State: dir})
//
// A build is the policy's author's: it runs in the engine, outside of any
// boundary, with the network. It is given no variable and no secret, and a
// context that holds a path which the policy or a default denies is refused.
// Nothing is pulled: the images that a Dockerfile starts from must be there.
//
// # Limitations
//
// The engine's classic builder builds: no heredocs, no RUN --mount. A FROM
// that names its image through a variable is refused.
package image
