package seatbelt

import "pinfold/plan"

// Proc is one row of the process table.
type Proc struct {
	PID, PPID, PGID int
	UID             int
	// Start is when it began, in the unit of [plan.Process]: on macOS
	// microseconds since 1970, on Linux clock ticks since boot. With the pid
	// it names a process for good.
	Start uint64
	Ended bool // a zombie
}

// descendants are the processes of the table that belong to a run: the root,
// whoever is in its process group, all that are known from an earlier look
// and still the same, and everything below one of these. Whoever has left all
// of that (a daemon that forked twice and made a session of its own between
// two looks) isn't found: macOS keeps no list of what is in a sandbox.
func descendants(table []Proc, root plan.Process, known map[plan.Process]bool) []Proc {
	ours, reused := map[int]bool{}, false
	for _, p := range table {
		// The pid was taken over, so its group is somebody else's too.
		reused = reused || p.PID == root.PID && p.Start != root.StartTicks
	}
	for _, p := range table {
		id := plan.Process{PID: p.PID, StartTicks: p.Start}
		if id == root || known[id] || !reused && p.PGID == root.PID && p.Start >= root.StartTicks {
			ours[p.PID] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for _, p := range table {
			if !ours[p.PID] && ours[p.PPID] && p.PPID > 1 {
				ours[p.PID], grown = true, true
			}
		}
	}
	var out []Proc
	for _, p := range table {
		if ours[p.PID] {
			out = append(out, p)
		}
	}
	return out
}
