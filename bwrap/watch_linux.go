package bwrap

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/event"
	"pinfold/guard"
	"pinfold/plan"
)

// taker takes away what appears under guarded names that weren't there when
// the launch began: .git/config.worktree, .vscode. A cover would have to leave
// a mount point on the host, which trips git and everything that lists the
// directory, so the name is left free, watched, and cleared when it is taken.
//
// Who made the thing can't be told, and it may be the host's own work. So what
// isn't empty is kept: copied into the record, and its path is said. Where it
// is too much to copy, or is written to when the run ends, it stays beside,
// under a name that nothing runs.
type taker struct {
	watches []guard.Watch
	keep    string // the directory that takes what is taken away
	lease   *watchLease
	journal *plan.Journal
	record  *plan.Record
	notice  func(string)
	emit    func(event.Event)

	said  map[string]bool
	count int
	room  room
	// open is what was taken away and may be written to still.
	open   []pending
	looked time.Time // when that was looked at last
	unsaid int       // how many were kept without a notice of their own
	failed error     // what couldn't be removed from beside
}

// maxTaken bounds how often names are cleared in one run: a command that goes
// on making them is ended.
const maxTaken = 1000

func newTaker(p *Process) (*taker, error) {
	t := &taker{
		watches: p.launch.Watches, record: p.o.Record, notice: p.notice, emit: p.emit,
		said: map[string]bool{}, room: newRoom(),
	}
	if len(t.watches) == 0 {
		return t, nil
	}
	if p.o.State == "" {
		return nil, errors.New("internal error: names are to be watched, and there is no state directory to note them in")
	}
	t.keep = filepath.Join(p.o.State, watchDir, "kept")
	if t.record != nil {
		t.keep = filepath.Join(t.record.Path(), "taken")
	}
	var err error
	t.lease, err = newWatchLease(p.o.State, t.keep, t.watches)
	return t, err
}

// take clears every watched name that is taken. One that can't be cleared, or
// one too many, leaves no other as it is.
func (t *taker) take() (first *loss) {
	for _, w := range t.watches {
		if l := t.takeOne(w); l != nil && first == nil {
			first = l
		}
	}
	return first
}

func (t *taker) takeOne(w guard.Watch) *loss {
	list, err := victims(w)
	for _, v := range list {
		if err == nil {
			err = t.clear(w, v)
		}
		v.close()
	}
	t.count += len(list)
	switch {
	case err != nil:
		return &loss{"name_not_cleared", w.Path, fmt.Sprintf("something was made there that can't be taken away: %v", err)}
	case len(list) > 0 && t.count > maxTaken:
		return &loss{"name_not_cleared", w.Path, fmt.Sprintf("something was made there, or under another such name, %d times", t.count)}
	}
	return nil
}

// victims are what stands under a watched name, or in it, where nothing may.
func victims(w guard.Watch) ([]*victim, error) {
	v, err := find(w.Path, w.Root)
	switch {
	case v == nil:
		return nil, err
	case !w.Worktrees || v.path != w.Path || v.mode&unix.S_IFMT != unix.S_IFDIR:
		return []*victim{v}, nil
	}
	defer v.close()
	return strays(v, w.Known)
}

// whyTaken says why what appears is taken away, for people and as a code.
func whyTaken(c guard.Class) (why, reason string) {
	switch c {
	case guard.ClassDefault:
		return "what stands there is denied by default", "default_deny"
	case guard.ClassPolicy, guard.ClassCaller, guard.ClassProtected, guard.ClassBuiltin:
		return "nothing may be made there", "denied_name_appeared"
	case guard.ClassGuarded:
	}
	return "programs on the host obey what stands there", "guarded_name"
}

// tell says something about a path, once.
func (t *taker) tell(path, text string) {
	if !t.said[path] {
		t.said[path] = true
		t.notice(text)
	}
}

func (t *taker) log(action, kind, path, detail string) error {
	if t.record == nil {
		return nil
	}
	if t.journal == nil {
		var err error
		if t.journal, err = t.record.Journal(); err != nil {
			return err
		}
	}
	return t.journal.Add(step(action, kind, path, detail))
}
