// Package lease keeps the mount points that launches make on the host.
//
// A name that must not become makeable inside is covered, and a cover needs
// something to be mounted on. Where nothing stands yet an empty mount point is
// made on the host, where host and sandbox both see it, and taken away when the
// last launch that needs it has ended: removing one under a living sandbox
// strips its cover.
//
//	held, err := lease.Take(lease.Request{State: state, Missing: points, Covered: paths})
//	…
//	err = held.Release()
//
// Each mount point has a lease: a file in the state directory that says what
// was made, on which every run that covers the path holds a shared lock as long
// as it lives. The kernel drops the lock with the process, so whoever gets an
// exclusive one knows that nobody is left, crash or not. What outlives its
// supervisor, a container, is a tenant: its first process has been handed a
// lock of its own, [Held.File], which the leases name. One more lock keeps two
// launches from deciding at once.
//
// What the guard of a launch has seen must still be so when the launch has its
// leases. Three steps see to that:
//
//  1. Whoever is about to launch holds a shared lock ([BeginLook]) from before
//     its guard looks until its leases are taken. Others make mount points
//     meanwhile (where the guard saw nothing, [Take] shares them), but remove
//     none.
//  2. [Take], [Held.Release] and [Reclaim] decide under one exclusive lock, for a
//     few system calls.
//  3. With it, Release and Reclaim try for the first one exclusively, and don't
//     wait. Where somebody looks they note that there is something to remove,
//     and leave the lease behind, free: the last one to look removes it
//     ([Look.End]), unless its own launch shares it. One that is killed
//     meanwhile leaves that to the next launch.
//
// So nothing goes away from the look until the end of the run, and what
// bubblewrap or an engine mounts over is there. That holds among the runs of
// one state directory: others know nothing of them.
//
// What killed runs left is found and removed by [Reclaim], which every launch
// calls first. A mount point is known by device and inode, or, for a run that
// was killed between making and noting, by its birth right after the intent; what
// somebody has put to use since stays.
package lease
