package bwrap_test

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/bwrap"
	"pinfold/event"
	"pinfold/guard"
)

// heard keeps events.
type heard struct {
	mu   sync.Mutex
	list []event.Event
	come chan struct{}
}

func newHeard() *heard { return &heard{come: make(chan struct{}, 100)} }

func (h *heard) Emit(e event.Event) {
	h.mu.Lock()
	h.list = append(h.list, e)
	h.mu.Unlock()
	h.come <- struct{}{}
}

// next waits for the next event.
func (h *heard) next(t *testing.T) event.Event {
	t.Helper()
	select {
	case <-h.come:
	case <-time.After(20 * time.Second):
		t.Fatal("no event within 20 seconds")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	e := h.list[0]
	h.list = h.list[1:]
	return e
}

// replace renames a new file over a path, as editors do.
func replace(t *testing.T, path, text string) {
	t.Helper()
	file(t, path+".new", text)
	must(t, os.Rename(path+".new", path))
}

// A cover that the host takes away comes back, time and again, for everything
// that runs inside, threads and children included, and all of it runs on.
func TestMend(t *testing.T) {
	t.Parallel()
	dir := lab(t)
	file(t, dir+"/w/denied", "one")
	file(t, dir+"/w/fixed", "one")
	in := command("sleep 1000 & a=$!; (while :; do :; done) & b=$!; cat " + dir + "/w/denied && exit 3; echo ready; read x; cat " + dir + "/w/denied && exit 4; echo x >" + dir + "/w/fixed && exit 5; cat " + dir + "/w/fixed; kill $a $b; wait; exit 7")
	in.Entries = []guard.Entry{
		entry(t, dir+"/w", guard.ReadWrite), entry(t, dir+"/w/denied", guard.Deny), entry(t, dir+"/w/fixed", guard.ReadOnly),
	}
	events := newHeard()
	p, end := begin(t, realLaunch(t, in), bwrap.StartOptions{State: dir + "/state", Events: events, Notice: func(s string) { t.Log(s) }})
	for i := range 5 {
		for _, name := range []string{"denied", "fixed"} {
			replace(t, dir+"/w/"+name, strings.Repeat("two", i+1))
			if e := events.next(t); e.Kind != event.Boundary || e.Reason != "cover_restored" || e.Target != dir+"/w/"+name {
				t.Fatalf("%+v", e)
			}
		}
	}
	if e := end(); e.Code != 7 {
		t.Errorf("%+v", e)
	}
	<-p.Done()
}

// put renames what was made as new over a denied name. Removed first, the name
// might be covered again before the other thing is there.
func put(err error, w string) error {
	if err != nil {
		return err
	}
	return os.Rename(w+"/new", w+"/denied")
}

// What can't be put right ends the run.
func TestBoundaryLost(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w string) error{
		"a link":       func(w string) error { return put(os.Symlink("x", w+"/new"), w) },
		"a fifo":       func(w string) error { return put(unix.Mkfifo(w+"/new", 0o644), w) },
		"in a new dir": func(w string) error { return os.Rename(w+"/sub", w+"/sub2") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := lab(t)
			w := dir + "/w"
			file(t, w+"/denied", "one")
			file(t, w+"/sub/denied", "one")
			in := command("echo ready; read x")
			in.Entries = []guard.Entry{
				entry(t, w, guard.ReadWrite), entry(t, w+"/denied", guard.Deny), entry(t, w+"/sub/denied", guard.Deny),
			}
			events := newHeard()
			p, _ := begin(t, realLaunch(t, in), bwrap.StartOptions{State: dir + "/state", Events: events, Notice: func(s string) { t.Log(s) }})
			must(t, change(w))
			e, err := p.Wait()
			must(t, err)
			if e.Code != bwrap.CodeBoundaryLost || e.Reason != bwrap.BoundaryLost {
				t.Errorf("%+v", e)
			}
			if e := events.next(t); e.Kind != event.Boundary || e.Reason != "cover_detached" {
				t.Errorf("%+v", e)
			}
		})
	}
}
