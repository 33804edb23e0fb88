package bwrap

import (
	"context"
	"time"

	"pinfold/supervise"
)

// unreadWait is how long nobody may read what the command wrote last, once this
// side has ended the run or is asked to end. The reader of a pipe that the
// command holds itself has the rest of it in the kernel; what this process
// carries ends with it.
const unreadWait = 2 * time.Second

// readerTime is how long a connection's other end has for the rest.
func (p *Process) readerTime() time.Duration {
	if p.endedItself() {
		return supervise.DrainLimit
	}
	return unreadWait
}

// awaitReader waits until everything that the command wrote has been handed on.
// The reader may take its time, unless this side has ended the run, or is to end
// meanwhile: no timeout and no signal may wait for somebody who doesn't read.
func (p *Process) awaitReader(ctx context.Context) (read bool) {
	done := make(chan struct{})
	go func() {
		p.relay.wait()
		p.output.wait()
		close(done)
	}()
	if p.endedItself() {
		select {
		case <-done:
			return true
		case <-ctx.Done():
		case <-p.hurried:
		}
	}
	tick := time.NewTicker(unreadWait)
	defer tick.Stop()
	for before := p.handedOn(); ; {
		select {
		case <-done:
			return true
		case <-tick.C:
		}
		now := p.handedOn()
		if now == before {
			return false
		}
		before = now
	}
}

// handedOn counts what was carried of the command's output.
func (p *Process) handedOn() int64 {
	n := p.relay.carried()
	if p.output != nil {
		n += p.output.moved.Load()
	}
	return n
}
