// Package launch runs a container and watches over it: the supervisor of the
// container tier.
//
//	dirs, err := launch.MakeDirs(state)                  // before the plan, which names them
//	l, err := provider.Plan(ctx, grant, container.Options{Handover: dirs.Handover, …})
//	p, err := launch.Start(ctx, launch.Options{Provider: provider, Launch: l, Dirs: dirs, …})
//	exit, err := p.Wait()
//
// What holds:
//   - Nothing is made before the plan is pinned in the record, and nothing
//     started before the container is.
//   - The stub's call is answered only if the kernel says that it comes from
//     the process that the engine names as the container's first, and it knows
//     the nonce of this launch, which nobody else inside ever sees.
//   - Each descriptor that comes out of the container is proven to be what was
//     asked for before anything is accepted on it.
//   - The limits are read back from the kernel before the command starts.
//   - The command's environment, secrets included, goes through the hand-over
//     alone. The engine is told nothing of it.
//   - How it ended is what the engine says. What the stub says of it tells a
//     signal from an exit, and no more.
//   - A container whose end can't be confirmed is an error, and its record
//     has no exit.
package launch
