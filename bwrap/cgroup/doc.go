// Package cgroup bounds what a whole tree of processes may use: processor
// time, memory, and how many processes there are. It speaks to the kernel's
// control groups of either version (cgroups(7)), by their files.
//
//	place, err := cgroup.Find(cgroup.Limits{Memory: 1 << 30}, cgroup.Options{})
//	tree, err := place.Make() // empty, its limits set
//	err = tree.Attach(pid) // while it waits: nothing of it has forked yet
//	...
//	used, err := tree.Stats()
//	err = tree.Remove(ctx)
//
// A place is, in this order: the cgroup that the caller names; with version 1
// the caller's own cgroups, where he may write them; with version 2 a scope
// that systemd makes (the system's for root, else the user's), or the top of
// the hierarchy for root where there is no systemd.
//
// Version 2 doesn't let a cgroup that has processes hand controllers to its
// children, and lets nobody but root move a process out of a subtree that
// isn't his (cgroup-v2: delegation containment). So an ordinary user needs
// systemd, or to be inside the subtree that was delegated to him.
//
// The libraries for this cost 1.0 to 4.5 MB of program for what are a few
// files here, so they aren't used.
package cgroup
