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
// What killed runs left is found and removed by [Reclaim], which every launch
// calls first. A mount point is known by device and inode, or, for a run that
// was killed between making and noting, by its birth after the intent; what
// somebody has put to use since stays.
package lease
