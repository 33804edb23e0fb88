package seatbelt

import (
	"time"

	"golang.org/x/sys/unix"

	"pinfold/plan"
)

// killRounds bounds a fork bomb: each round stops and kills everything that
// is there, so that it can only lose.
const (
	killRounds = 200
	killPause  = 10 * time.Millisecond
)

// killTree ends the command and all that is known of what it started, and
// looks until there is none left.
func (p *Process) killTree() {
	_ = p.Signal(unix.SIGKILL) // it may have ended
	tick := time.NewTicker(killPause)
	defer tick.Stop()
	for range killRounds {
		left := p.living()
		if len(left) == 0 {
			return
		}
		for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGKILL} {
			for _, q := range left {
				signalSame(q, sig)
			}
		}
		<-tick.C // nothing tells when somebody else's child is gone
	}
	p.notice("some processes of the run couldn't be ended; they stay inside the boundary")
}

// living are the run's processes but for the command once it is reaped, and
// zombies, which run nothing.
func (p *Process) living() []Proc {
	table, err := ProcessTable()
	if err != nil {
		return nil
	}
	var out []Proc
	for _, q := range descendants(table, p.root, p.watcher.knownSet()) {
		if !q.Ended {
			out = append(out, q)
		}
	}
	return out
}

// signalSame signals a process if it still is the one that was looked at. A
// pid taken over in between is a matter of microseconds, in which macOS would
// have to go through all 99,998 of them.
func signalSame(q Proc, sig unix.Signal) {
	now, ok, err := LookUp(q.PID)
	if err == nil && ok && now.Start == q.Start {
		_ = unix.Kill(q.PID, sig)
	}
}

// RunOf lists what lives of a run, by its recorded root.
func RunOf(root plan.Process) ([]Proc, error) {
	table, err := ProcessTable()
	if err != nil {
		return nil, err
	}
	var out []Proc
	for _, q := range descendants(table, root, nil) {
		if !q.Ended {
			out = append(out, q)
		}
	}
	return out, nil
}
