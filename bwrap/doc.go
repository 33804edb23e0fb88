// Package bwrap is the Linux process tier: it turns a [guard.Grant] into
// bubblewrap's arguments, and supervises the bubblewrap that runs them.
//
//	tool, err := bwrap.Locate(ctx, os.Getenv("PATH"), grant.Writable)
//	machine, err := bwrap.Probe(ctx, tool)
//	launch, err := bwrap.Translate(grant, machine, bwrap.Options{})
//
// [Translate] is pure and deterministic: it reads neither the file system nor
// the environment, so a plan can be printed, hashed and compared before
// anything runs, on any operating system. What it can't know from its
// arguments it doesn't guess: a field whose enforcement isn't built is refused
// by name, a layer that a policy requires and the machine lacks likewise.
//
// The order of the mounts is the boundary. A mount hides what lies beneath
// it, so every path comes after all those above it, and nothing that comes
// later shows again what an earlier one took away, unless a rule says so.
// What bubblewrap really made is compared with [wire.Setup.Checks] inside,
// just before the command starts.
//
// Limitations: bubblewrap's cost grows with the square of the mounts, so a
// launch with more than [MaxMounts] is refused; paths below /proc and /dev
// can't be granted.
package bwrap
