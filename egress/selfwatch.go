package egress

import (
	"sync"
	"time"
)

// knownFor bounds how long addresses count that nobody said had changed: a
// second line, should the system keep a change to itself.
const knownFor = 10 * time.Second

// ownAddrs keeps what [SystemAddrs] tells for as long as the kernel reports no
// change: reading it anew takes a quarter of a millisecond, and longer where
// there are many routes, which every flow would wait for.
type ownAddrs struct {
	mu    sync.Mutex
	watch *addrWatch
	known HostAddrs
	until time.Time
}

// get empties the watch before it reads, so that a change meanwhile is heard
// of the next time.
func (o *ownAddrs) get() (HostAddrs, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.watch == nil {
		o.watch = newAddrWatch()
	}
	if !o.watch.changed() && time.Now().Before(o.until) {
		return o.known, nil
	}
	o.until = time.Time{}
	h, err := SystemAddrs()
	if err != nil {
		return HostAddrs{}, err
	}
	o.known, o.until = h, time.Now().Add(knownFor)
	return h, nil
}
