package bwrap

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/event"
	"pinfold/guard"
)

// pending is what was taken away from under a name and isn't settled.
type pending struct {
	*aside
	w guard.Watch
}

// clear takes one thing away and says so: in an event each time, in a notice
// once for each name, and of the others how many there were.
func (t *taker) clear(w guard.Watch, v *victim) error {
	a, err := v.takeAway(t.keep, &t.room)
	if errors.Is(err, unix.ENOENT) {
		return nil // whoever made it has removed it
	}
	if err != nil {
		return err
	}
	_, reason := whyTaken(w.Rule.Class)
	t.emit(event.Event{Kind: event.Path, Action: event.Denied, Target: v.path, Rule: w.Rule.Text, Reason: reason})
	if a.settled {
		return t.say(pending{a, w})
	}
	t.open = append(t.open, pending{a, w})
	return t.log("removed", "guarded_name", a.path, a.at()) // for when this process is killed
}

// settle gives what was taken away its last place, as far as nobody writes to
// it any more; at the end in any case.
func (t *taker) settle(last bool) {
	var open []pending
	for _, a := range t.open {
		do := a.settle
		if last {
			do = a.finish
		}
		t.failed = errors.Join(t.failed, do(t.keep, &t.room))
		if !a.settled {
			open = append(open, a)
			continue
		}
		t.failed = errors.Join(t.failed, t.say(a))
	}
	t.open, t.looked = open, time.Now()
}

// say tells where it is.
func (t *taker) say(a pending) error {
	if t.said[a.w.Path] {
		if a.kept != "" {
			t.unsaid++
		}
	} else {
		why, _ := whyTaken(a.w.Rule.Class)
		t.tell(a.w.Path, fmt.Sprintf("took away %q, which appeared during the run, since %s (%s)", a.path, why, a.whereabouts()))
	}
	return t.log("removed", "guarded_name", a.path, a.kept)
}

func (a pending) whereabouts() string {
	where := "it was empty"
	switch {
	case a.gone:
		where = "it was moved or removed meanwhile"
	case a.kept != "":
		where = fmt.Sprintf("it is kept as %q", a.kept)
	}
	if a.rest != "" {
		where += fmt.Sprintf(", and what came later as %q", a.rest)
	}
	if a.w.Allow != "" {
		where += "; to allow it: " + a.w.Allow
	}
	return where
}

// beat renews the lease and looks at what is open, when it is time.
func (t *taker) beat() {
	t.lease.beat(false)
	if len(t.open) > 0 && time.Since(t.looked) >= heartbeat {
		t.settle(false)
	}
}

// end gives the lease up: whatever was to be done is done.
func (t *taker) end() error {
	if t == nil {
		return nil
	}
	t.settle(true)
	if t.unsaid > 0 {
		t.notice(fmt.Sprintf("took away %d more under such names; what they held is in %q, or beside as .pinfold-taken-… where it was open still",
			t.unsaid, t.keep))
	}
	err := errors.Join(t.failed, t.lease.end())
	if t.journal != nil {
		err = errors.Join(err, t.journal.Close())
		t.journal = nil
	}
	return err
}
