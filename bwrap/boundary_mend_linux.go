package bwrap

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/event"
	"pinfold/guard"
	"pinfold/plan"
)

// Mending puts back what the host took away: programs there replace files all
// the time, a shell its history when it ends, npm its ~/.npmrc, git config
// the .git/config that is covered here. Between the host's rename and the moment
// when everything inside stands still, the new file can be seen, and used: that
// window can't be closed, only kept short: a first cover goes on at once. What is
// made sure of is that nobody inside goes on having it: all are stopped, the cover
// is what was asked for, and nobody has hold of what lies beneath. Where that
// can't be shown, the run ends.

// settleWait is how long the host may take to put something at the name that
// it has emptied, as editors do that move the old file away first.
const settleWait = 300 * time.Millisecond

// mending is one stop of everything inside, to mend what differs.
type mending struct {
	*boundary
	halt  *stopped
	began time.Time
	since time.Time // when the host made the change, as far as that can be told
	end   time.Time
	// early are the covers that are on and not looked at yet, by place.
	early  map[string]*early
	bare   []*point // what may still be covered before all stand
	next   int      // the first point that wasn't looked at for that
	runsOn error    // why all can't be stopped
	// gone are the places whose old mounts are given up.
	gone map[string]bool
	did  []string
	// harmless are the mounts that newMounts let be.
	harmless map[int]guard.MountPoint
}

// mendAll makes everything as it was, or ends the run and says why.
func (b *boundary) mendAll(table bool) {
	m := &mending{boundary: b, began: time.Now(), early: map[string]*early{}, gone: map[string]bool{}, harmless: map[int]guard.MountPoint{}}
	m.since = m.began
	if m.next = b.firstDiffering(); m.next == len(b.points) && !table {
		return
	}
	m.stopEarly()
	l := m.mendUntilSame()
	if l != nil {
		b.lose(l) // before anybody may go on
	}
	m.letGo(l == nil)
}

func (m *mending) mendUntilSame() *loss {
	for {
		// A cover goes along with what the host moves away, without an event of
		// the table's.
		if l := m.newMounts(); l != nil {
			return l
		}
		if l := m.mendPoints(); l != nil {
			return l
		}
		l := m.compareTable()
		if l == nil || m.same() || time.Since(m.began) > stopWait {
			return l
		}
	}
}

// same reports whether every point is what it was.
func (b *boundary) same() bool { return b.firstDiffering() == len(b.points) }

func (b *boundary) firstDiffering() int {
	for i := range b.points {
		if p := &b.points[i]; !p.watched && b.identify(p.path) != p.want {
			return i
		}
	}
	return len(b.points)
}

// letGo lets everything inside go on, or ends it: who has hold of what he
// should not have could use it in what time a run takes to end.
func (m *mending) letGo(mended bool) {
	if !mended && m.halt != nil {
		m.halt.kill()
	}
	m.endEarly(mended)
	if mended && m.halt != nil {
		m.note(plan.ActionSettled, "")
		m.halt.letGo()
	}
	took := time.Since(m.since)
	for _, path := range m.did {
		m.emit(event.Event{Kind: event.Boundary, Action: event.Noticed, Target: path, Reason: "cover_restored", Duration: took})
		m.taker.tell(path, fmt.Sprintf("the host replaced %q during the run; it is kept from the command again, which could have used it for %v",
			path, took.Round(100*time.Microsecond)))
	}
}

// stop stops everything inside, once.
func (m *mending) stop() error {
	if m.halt == nil {
		m.note(plan.ActionMending, "")
		m.halt, m.runsOn = stopMeanwhile(m.init, m.coverEarly)
		m.end = time.Now().Add(settleWait)
	}
	return m.runsOn
}

// dateChange dates the host's change by what it has put there: rename(2) and
// whatever makes something new set its time of change, which nobody can set
// back, by a clock that may be some milliseconds slow. It takes as long until
// this side is told, on a busy machine, and the thing could be used meanwhile.
func (m *mending) dateChange(st *unix.Stat_t) {
	at := time.Unix(st.Ctim.Unix())
	if at.Before(m.since) && at.After(m.notify.armed) {
		m.since = at
	}
}

// note writes a step into the journal. That it can't, on a full disk, is no
// reason to end the run: it may be that it can't be adopted, and it is told.
func (m *mending) note(action, path string) {
	if err := m.taker.log(action, plan.KindMount, path, ""); err != nil && len(m.errs) == 0 {
		m.errs = append(m.errs, err)
	}
}

// mendPoints mends the paths that differ, those above before those beneath.
func (m *mending) mendPoints() *loss {
	for {
		p, err := m.mendRound()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errAbove) && time.Now().Before(m.end):
			pause(time.Millisecond) // the host is at it still
		default:
			l := p.loss(m.identify(p.path))
			l.why += "; it can't be put right: " + err.Error()
			return l
		}
	}
}

// mendRound answers the first path that can't be mended, and why.
func (m *mending) mendRound() (*point, error) {
	for i := range m.points {
		p := &m.points[i]
		// An early cover may look like the one that was there, since the kernel
		// gives the same numbers again, and is still to be confirmed.
		if p.watched || m.early[p.path] == nil && m.identify(p.path) == p.want {
			continue
		}
		if err := m.mendPoint(p); err != nil {
			return p, err
		}
	}
	return nil, nil
}

// errCannot is for what can't be mended, with nothing more to say.
var errCannot = errors.New("too much depends on it")

// errAbove: something that lies above has to be mended first.
var errAbove = errors.New("the host changes what lies above as well")

// errServices: what a process outside has been sent it may send back.
var errServices = errors.New("a service that may be connected to could have been sent hold of it")

// mendPoint mends one path.
func (m *mending) mendPoint(p *point) error {
	r, ok := m.launch.recipes[p.path]
	if !ok {
		return errCannot
	}
	if err := m.stop(); err != nil {
		return err
	}
	// The host may not have finished: it takes a mount off before the name, and
	// an editor moves a file away before it writes the new one. What comes next
	// is the host's, since nobody inside moves, and it doesn't tell.
	for {
		if err := m.surround(p); err != nil {
			return err
		}
		late := time.Now().After(m.end)
		done, err := m.attempt(p, r, late)
		if done || late {
			return err
		}
		pause(time.Millisecond)
		if err := m.halt.keep(); err != nil {
			return err
		}
	}
}

// surround makes sure that a path lies in what it lay in, or in what nobody
// inside can have changed.
func (m *mending) surround(p *point) error {
	up := m.identify(filepath.Dir(p.path))
	switch {
	case up == p.up:
		return nil
	case m.outOfReach(p.path):
		p.up = up
		return nil
	case slices.ContainsFunc(m.points, func(above point) bool {
		return isBelow(p.path, above.path) && !above.watched && m.identify(above.path) != above.want
	}):
		return errAbove
	}
	return errCannot
}

// outOfReach reports whether what a path lies in, as much of it as there is,
// can't be written inside because something above holds: then the host alone
// can have changed it, and nobody inside makes use of it.
func (m *mending) outOfReach(p string) bool {
	dir := filepath.Dir(p)
	id := m.identify(dir)
	for ; notThere(id.err) && dir != "/"; id = m.identify(dir) {
		dir = filepath.Dir(dir)
	}
	return id.err == 0 && id.readOnly && id.mount != 0 && slices.ContainsFunc(m.points, func(above point) bool {
		return isBelow(p, above.path) && above.want.mount == id.mount && m.identify(above.path) == above.want
	})
}

func notThere(err unix.Errno) bool { return err == unix.ENOENT || err == unix.ENOTDIR }

// attempt puts one path right as it is now. It is done, or should be tried
// again as long as there is time.
func (m *mending) attempt(p *point, r recipe, late bool) (done bool, err error) {
	if e := m.early[p.path]; e != nil {
		delete(m.early, p.path)
		if confirmed, err := m.confirm(p, r, e); confirmed || err != nil {
			return err == nil || errors.As(err, &unproved{}), err
		}
	}
	got := m.identify(p.path)
	switch {
	case notThere(got.err) && (p.up.readOnly || m.outOfReach(p.path)):
		m.giveUp(p, got) // nobody inside can make it
		return true, nil
	case got.err == unix.ENOENT:
		if late {
			return m.fill(p, r)
		}
		return false, nil
	case got.err != 0:
		return late, got.err
	case got == p.want:
		return true, nil
	}
	err = m.cover(p, r, got)
	return err == nil || errors.As(err, &unproved{}), err
}

// giveUp leaves a place without its cover.
func (m *mending) giveUp(p *point, got identity) {
	p.want, m.gone[p.path] = got, true
	m.note(plan.ActionGone, p.path)
}

// fill does with a name that the host has left empty as the launch does with
// those that are empty from the start: one that is kept by default is watched,
// and on one of the policy's or the caller's stands an empty mount point.
func (m *mending) fill(p *point, r recipe) (done bool, err error) {
	if r.rule.Class == guard.ClassGuarded || r.rule.Class == guard.ClassDefault {
		m.taker.watches = append(m.taker.watches, guard.Watch{Path: p.path, Rule: r.rule, Allow: r.rule.Lift()})
		p.watched = true
		m.giveUp(p, identity{err: unix.ENOENT})
		return true, nil
	}
	if err := m.makePoint(Ghost{Path: p.path, Dir: len(r.content) == 0}); err != nil {
		return true, fmt.Errorf("nothing stands there any more, so that it could be made from inside: %w", err)
	}
	return m.attempt(p, r, false)
}

// pause is for what nobody tells of: that the host has finished, or that
// somebody inside has closed a file.
func pause(d time.Duration) { time.Sleep(d) }

// step is the journal's line of what was done.
func step(action, kind, path, detail string) plan.Step {
	return plan.Step{Time: time.Now(), Action: action, Kind: kind, Path: path, Detail: detail}
}
