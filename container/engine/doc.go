// Package engine is docker and podman as a [container.Provider], through the
// API that both speak on a unix socket.
//
//	p, err := engine.Open(ctx, engine.Choice{Runtime: "docker"})
//	info, err := p.Info(ctx)
//
// The requests are made with net/http and a handful of types of our own:
// docker's client library would add 1.8 MB and a millisecond to every start
// of pinfold, launches without a container included. The client programs
// aren't used at all, since some of them answer a TERM by exiting 0 while the
// container runs on.
//
// # Limitations
//
// Only engines on this kernel: "unix://" endpoints. Podman's API is docker's
// with gaps, and one of its own beside it; where they differ the code says
// how.
package engine
