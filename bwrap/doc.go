// Package bwrap is the Linux process tier: it turns a [guard.Grant] into
// bubblewrap's arguments, and supervises the bubblewrap that runs them.
//
//	tool, err := bwrap.Locate(ctx, os.Getenv("PATH"), grant.Writable)
//	machine, err := bwrap.Probe(ctx, tool)
//	launch, err := bwrap.Translate(grant, machine, bwrap.Options{})
//	process, err := bwrap.Start(ctx, launch, bwrap.StartOptions{})
//	exit, err := process.Wait()
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
// [Start] runs bubblewrap as a child of a thread that lives as long as it
// does, so that everything inside dies with this process, at whatever moment
// and by whatever signal that ends. bubblewrap inherits no environment and no
// descriptor that isn't listed; its own messages are kept apart from the
// command's and decide nothing. The command is let go once the stub's greeting
// is proven to come from the child of our bubblewrap's pid 1, that pid 1 is
// bound to die with its parent, the record says what runs, and the listeners
// that came out of the sandbox are served. What comes from the stub is taken
// as hostile: it is bounded, and the first thing out of order ends the launch.
//
// Where standard input is a terminal, the command gets one made inside, and
// this process relays: raw while in the foreground, handed back when the
// command stops or ends, and left alone in the background. A terminal on any
// stream is replaced, so that no descriptor of the operator's gets inside.
//
// Limitations: bubblewrap's cost grows with the square of the mounts, so a
// launch with more than [MaxMounts] is refused; paths below /proc and /dev
// can't be granted. A supervisor killed with SIGKILL leaves a terminal raw, and
// in the microsecond between bubblewrap's tying itself to its parent and its
// letting its child go on, that child: it waits forever, has run nothing, and
// holds nothing but the standard streams. Of the signals that the caller
// ignores only SIGHUP and SIGINT stay ignored inside, since Go installs its
// own handlers for the others before any code of ours runs.
package bwrap
