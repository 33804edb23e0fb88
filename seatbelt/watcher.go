package seatbelt

import (
	"sync"
	"time"

	"pinfold/plan"
)

// lookEvery is how often the process table is read, to know those again that
// leave the run's process group and their parents. What forks twice between
// two looks is missed.
const lookEvery = time.Second

// watcher knows the processes of a run, and reads the log for what they were
// refused.
type watcher struct {
	root plan.Process
	quit chan struct{}
	idle sync.WaitGroup

	mu    sync.Mutex
	known map[plan.Process]bool
	pids  map[int]bool // ever: the log is late
}

// watch starts looking at the run.
func (p *Process) watch() {
	w := &watcher{root: p.root, quit: make(chan struct{}), known: map[plan.Process]bool{}, pids: map[int]bool{p.root.PID: true}}
	p.watcher = w
	w.look()
	w.idle.Go(w.loop)
	if p.o.Violations && p.o.Events != nil {
		w.idle.Go(func() { p.readLog(w) })
	}
}

func (w *watcher) loop() {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-w.quit:
			return
		case <-tick.C:
			w.look()
		}
	}
}

func (w *watcher) look() {
	table, err := ProcessTable()
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := map[plan.Process]bool{}
	for _, q := range descendants(table, w.root, w.known) {
		now[plan.Process{PID: q.PID, StartTicks: q.Start}] = true
		w.pids[q.PID] = true
	}
	w.known = now
}

// has reports whether a process is or was one of the run's.
func (w *watcher) has(pid int) bool {
	w.mu.Lock()
	known := w.pids[pid]
	w.mu.Unlock()
	if known {
		return true
	}
	w.look()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pids[pid]
}

func (w *watcher) knownSet() map[plan.Process]bool {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known
}

func (w *watcher) stop() {
	if w == nil {
		return
	}
	close(w.quit)
	w.idle.Wait()
}
