// Package guard is the one gate: [GuardLaunch] turns a policy, a request and
// a protected set into a [Grant], or refuses. It is the only package that
// looks at the file system to decide what a path really is; every back end is
// a pure translation of the Grant.
//
//	grant, err := guard.GuardLaunch(ctx, p, request, protected)
//	if r, ok := errors.AsType[*policy.Refusal](err); ok {
//		fmt.Println(r.Why, r.Rule, r.Fix) // nothing runs
//	}
//	defer grant.Close()
//
// # How it decides
//
// Paths are resolved component by component through directory descriptors and
// held open (O_PATH) until the Grant is closed, so what was checked is what
// the device and inode numbers in the Grant name. All rules then meet in one
// lattice, in which the most specific one wins. [Grant.Entries],
// [Grant.Watches], [Grant.Pins], the start directory, the needs and
// [Grant.Explain] are all read from it.
//
// What shows under several names is found by device: other mounts from the
// mount table, hard links by a walk over everything that may be written and
// over what is denied.
//
// # Limitations
//
// bubblewrap and the container engines mount by path, so between the check
// and the mount a name can be exchanged. The guarantee itself is made inside
// the boundary: just before the command starts, the stub compares device,
// inode and mount flags of every entry with the Grant.
//
// A denied tree of more than 20,000 entries isn't looked through for hard
// links; [Grant.Notes] says so. The layers of an overlay file system that
// the mount table names relative to an unknown directory are looked for above
// its place and its other layers; one with a layer that isn't found is hidden.
// Members of groups that the machine's own tables don't list count as other
// users.
package guard
