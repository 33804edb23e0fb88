// Package container runs a Grant in a container of docker or podman: the tier
// for a command that needs another user land, a tool that isn't installed
// here, or limits that only an engine can set.
//
// The file system is an allowlist. Nothing of the host shows but what the
// Grant names, at the host's own paths; what it takes away again beneath a
// grant is covered. The root is read-only, no capability is left, nothing
// inside can gain one, and there is no network but the container's own
// loopback. What leaves goes through listeners that the stub hands to the
// supervisor over one bind-mounted unix socket.
//
// A launch goes
//
//	p, err := engine.Open(ctx, choice)        // docker or podman, or a refusal
//	l, err := p.Plan(ctx, grant, options)     // pure data: Spec, covers, plan
//	err = l.Covers.Make(options.Scratch)      // the empty things to cover with
//	ref, err := p.Create(ctx, l.Spec)         // made, labelled, not started
//	… the record pins l.Plan and ref …
//	err = p.Start(ctx, ref)
//
// The process in [State.Pid] is then the stub, pid 1 inside, which waits for
// its supervisor on the socket in [RunDir].
//
// # Standard streams
//
// A [Provider] attaches nothing and keeps no log. The supervisor hands the
// command's standard streams to the stub as descriptors, beside the listeners
// that come the other way: they reach the command without a copy, outlive a
// restart of the engine, and never stand in a log file of the engine's.
//
// # Limitations
//
//   - The engine must run on this kernel and this file system: a context that
//     names a remote engine is refused.
//   - A pinned directory (one that holds something covered) is a mount of its
//     own, since engines refuse two mounts at one path: renaming a file across
//     it fails with EXDEV, which mv(1) and most tools answer by copying.
//   - Engines mount by path. The guard has checked each one, and the stub
//     compares device and inode of each bind before the command starts.
package container
