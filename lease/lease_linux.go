package lease

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pinfold/plan"
)

// Held are the leases of one run.
type Held struct {
	dir     string
	record  *plan.Record // may be nil
	held    []*lease
	tenant  *os.File      // nil for a run that nothing outlives
	journal *plan.Journal // nil until there is something to say
}

// lease is one path's, with a shared lock.
type lease struct {
	f    *os.File
	note note // Path empty: nothing was made
}

// Take makes the mount points that are missing and takes a lease on each, and
// on every other covered path whose mount point another run made.
func Take(r Request) (*Held, error) {
	h := &Held{dir: filepath.Join(r.State, dirName), record: r.Record}
	if r.State == "" {
		if len(r.Missing) > 0 {
			return nil, errors.New("internal error: mount points are to be made, and there is no state directory to note them in")
		}
		return h, nil
	}
	found, err := names(h.dir)
	if err != nil {
		return nil, err
	}
	if len(r.Missing) == 0 && len(found) == 0 {
		// No run has made a mount point, so none of the covered ones can be
		// taken away. One that is made right now is the other run's alone:
		// this one's guard saw a path that was there without it.
		return h, nil
	}
	unlock, err := lockAll(h.dir)
	if err != nil {
		return nil, err
	}
	if r.Outlives {
		h.tenant, err = newTenant(h.dir)
	}
	if err == nil {
		err = h.take(r.Missing, r.Covered)
	}
	unlock()
	if err != nil {
		return nil, refusal(errors.Join(err, h.Release()))
	}
	return h, nil
}

// Again takes the leases of a run whose supervisor has gone, for another one.
// What the first one had made is the tenant's, which lives.
func Again(r Request) (*Held, error) {
	h := &Held{dir: filepath.Join(r.State, dirName), record: r.Record}
	if len(r.Covered) == 0 {
		return h, nil
	}
	unlock, err := lockAll(h.dir)
	if err != nil {
		return nil, err
	}
	err = h.share(r.Covered)
	unlock()
	if err == nil && len(h.held) > 0 && h.record != nil {
		h.journal, err = h.record.Journal()
	}
	if err != nil {
		return nil, errors.Join(err, h.Release())
	}
	return h, nil
}

// names are the leases that there are, in no order. A directory that can't be
// read may hold one that this run needs.
func names(dir string) (map[string]bool, error) {
	found := map[string]bool{}
	list, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return found, nil // nothing was ever made
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list the leases of mount points: %w", err)
	}
	for _, e := range list {
		if strings.HasSuffix(e.Name(), leaseExt) {
			found[e.Name()] = true
		}
	}
	return found, nil
}

func (h *Held) take(missing []Point, covered []string) error {
	if err := h.share(covered); err != nil {
		return err
	}
	if len(missing) > 0 && h.record != nil && h.journal == nil {
		var err error
		if h.journal, err = h.record.Journal(); err != nil {
			return err
		}
	}
	for _, p := range missing {
		if err := h.make(p); err != nil {
			return &pointError{path: p.Path, err: err}
		}
	}
	return nil
}

// share takes a lease on every mount point that other runs made, of covered
// paths and of the directories on the way there.
func (h *Held) share(covered []string) error {
	found, err := names(h.dir)
	if err != nil {
		return err
	}
	var paths []string
	for _, p := range covered {
		for ; p != "/" && p != "."; p = filepath.Dir(p) {
			if name := nameOf(p); found[name] {
				paths = append(paths, p)
				delete(found, name) // once each
			}
		}
	}
	slices.Sort(paths) // parents first
	for _, p := range paths {
		l, err := open(h.dir, p, os.O_RDWR)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		h.held = append(h.held, l)
		if err := h.move(l); err != nil {
			return err
		}
	}
	return nil
}

// open opens a lease with a shared lock, which it gets at once: an exclusive
// one is only ever held under the lock that the caller has.
func open(dir, path string, flag int) (*lease, error) {
	f, err := os.OpenFile(filepath.Join(dir, nameOf(path)), flag|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	l := &lease{f: f}
	if err := lock(f, unix.LOCK_SH); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if err := l.read(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return l, nil
}

// make makes one mount point, or shares one that another run has just made.
// One that somebody else made meanwhile needs nothing: it is covered as it is.
func (h *Held) make(p Point) error {
	l, err := open(h.dir, p.Path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	h.held = append(h.held, l)
	if l.note.Ino != 0 && l.note.stands() == nil {
		return h.move(l)
	}
	n := note{Path: p.Path, Dir: p.Dir, Intent: time.Now().UnixNano(), Tenants: h.tenants(l.note.Tenants)}
	if err := l.write(n); err != nil {
		return err
	}
	made, err := n.make()
	if errors.Is(err, unix.EEXIST) {
		return l.write(note{})
	}
	if err != nil {
		return errors.Join(err, l.write(note{}))
	}
	if err := l.write(made); err != nil {
		return err
	}
	return h.log("made", made)
}

// Make makes a mount point while the launch runs, where the host has taken
// away what stood there.
func (h *Held) Make(p Point) error {
	if !filepath.IsAbs(h.dir) {
		return errors.New("internal error: there is no state directory to note a mount point in")
	}
	unlock, err := lockAll(h.dir)
	if err != nil {
		return err
	}
	defer unlock()
	return h.take([]Point{p}, nil)
}

func (h *Held) log(action string, n note) error {
	if h.journal == nil {
		return nil
	}
	return h.journal.Add(plan.Step{
		Time: time.Now(), Action: action, Kind: "mount_point", Path: n.Path,
		Detail: fmt.Sprintf("dev %d ino %d", n.Dev, n.Ino),
	})
}

// Release gives the leases up, the deepest path first, and removes what nobody
// else needs. Call it when nothing of the sandbox is left: what is left
// nevertheless, a container that can't be ended, keeps its own. While another
// launch looks nothing is removed; it does that itself then, [Look.End].
func (h *Held) Release() error {
	if h == nil || len(h.held) == 0 && h.tenant == nil {
		return nil
	}
	unlock, err := lockAll(h.dir)
	if err != nil {
		return err
	}
	defer unlock()
	errs := []error{h.leave()}
	done, err := whileNobodyLooks(h.dir, h.endAll)
	errs = append(errs, err)
	if !done {
		for _, l := range h.held {
			errs = append(errs, drop(l.f))
		}
	}
	h.held = nil
	if h.journal != nil {
		errs = append(errs, h.journal.Close())
		h.journal = nil
	}
	return errors.Join(errs...)
}

// Vacate is Release for a sandbox that has gone for certain: nobody who was
// handed its file holds anything any more, whoever may have that by chance.
func (h *Held) Vacate() error {
	if h == nil || h.tenant == nil {
		return h.Release()
	}
	return errors.Join(lock(h.tenant, unix.LOCK_UN), h.Release())
}

// endAll ends the leases, the deepest first.
func (h *Held) endAll() error {
	var errs []error
	for _, l := range slices.Backward(h.held) {
		removed, err := l.end()
		if err == nil && removed {
			err = h.log("removed", l.note)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// end removes mount point and lease if this run was the last to hold it.
func (l *lease) end() (removed bool, err error) {
	defer drop(l.f) //nolint:errcheck // it has the lock as long as the file at most
	free, err := l.free()
	if err != nil || !free {
		return false, err
	}
	if l.note.Path != "" {
		if removed, err = l.note.remove(); err != nil {
			return false, err // the lease stays for the next one to try
		}
	}
	errs := []error{os.Remove(l.f.Name())}
	for _, t := range l.note.Tenants {
		errs = append(errs, clearTenant(filepath.Join(filepath.Dir(l.f.Name()), t)))
	}
	return removed, errors.Join(errs...)
}

// free reports whether nobody else holds the lease, neither by its lock nor as
// a tenant. Another run may have made the mount point anew since it was read.
func (l *lease) free() (bool, error) {
	err := lock(l.f, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	if err == nil {
		err = l.read()
	}
	if err != nil {
		return false, err
	}
	for _, t := range l.note.Tenants {
		lives, err := isAlive(filepath.Join(filepath.Dir(l.f.Name()), t))
		if err != nil || lives {
			return false, err
		}
	}
	return true, nil
}

// maxNote bounds what is read of a lease: a path, a few numbers and names.
const maxNote = 64 << 10

func (l *lease) read() error {
	var n note
	b, err := io.ReadAll(io.NewSectionReader(l.f, 0, maxNote))
	if err != nil {
		return fmt.Errorf("cannot read lease %q: %w", l.f.Name(), err)
	}
	if len(b) > 0 {
		if err := plan.DecodeNote(b, &n); err != nil {
			return damaged(l.f.Name(), err)
		}
	}
	l.note = n
	return nil
}

// write replaces what the lease says. Padding instead of truncation: a crash
// between the two would leave half a note.
func (l *lease) write(n note) error {
	b, err := plan.EncodeNote(n)
	if err != nil {
		return fmt.Errorf("cannot write lease %q: %w", l.f.Name(), err)
	}
	info, err := l.f.Stat()
	if err == nil {
		for int64(len(b)) < info.Size() {
			b = append(b, ' ')
		}
		_, err = l.f.WriteAt(b, 0)
	}
	if err != nil {
		return fmt.Errorf("cannot write lease %q: %w", l.f.Name(), err)
	}
	l.note = n
	return nil
}
