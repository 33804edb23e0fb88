package bwrap

import (
	"encoding/json"
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

// leases are what one run holds.
type leases struct {
	dir     string
	held    []*lease
	journal *plan.Journal // nil without a record
}

// lease is one path's, with a shared lock.
type lease struct {
	f    *os.File
	note note // Path empty: nothing was made
}

// prepareCovers makes the mount points that are missing and takes a lease on
// each, and on every other covered path whose mount point another run made.
// bubblewrap would make them as well, but then nobody could tell later whose
// they are.
func prepareCovers(state string, missing []Ghost, covered []string, rec *plan.Record) (*leases, error) {
	ls := &leases{dir: filepath.Join(state, leaseDir)}
	if state == "" {
		if len(missing) > 0 {
			return nil, errors.New("internal error: mount points are to be made, and there is no state directory to note them in")
		}
		return ls, nil
	}
	if len(missing) == 0 && len(leaseNames(ls.dir)) == 0 {
		// No run has made a mount point, so none of the covered ones can be
		// taken away. One that is made right now is the other run's alone:
		// this one's guard saw a path that was there without it.
		return ls, nil
	}
	unlock, err := lockLeases(ls.dir)
	if err != nil {
		return nil, err
	}
	err = ls.take(missing, covered, rec)
	unlock()
	if err != nil {
		return nil, errors.Join(err, ls.release())
	}
	return ls, nil
}

// leaseNames are the leases that there are, in no order.
func leaseNames(dir string) map[string]bool {
	names := map[string]bool{}
	list, err := os.ReadDir(dir)
	if err != nil {
		return names // nothing was ever made; opening one fails for good reasons later
	}
	for _, e := range list {
		if strings.HasSuffix(e.Name(), leaseExt) {
			names[e.Name()] = true
		}
	}
	return names
}

func (ls *leases) take(missing []Ghost, covered []string, rec *plan.Record) error {
	if err := ls.share(covered); err != nil {
		return err
	}
	if len(missing) > 0 && rec != nil && ls.journal == nil {
		var err error
		if ls.journal, err = rec.Journal(); err != nil {
			return err
		}
	}
	for _, g := range missing {
		if err := ls.make(g); err != nil {
			return fmt.Errorf("cannot make the mount point %q: %w", g.Path, err)
		}
	}
	return nil
}

// share takes a lease on every mount point that other runs made, of covered
// paths and of the directories on the way there.
func (ls *leases) share(covered []string) error {
	names := leaseNames(ls.dir)
	var paths []string
	for _, p := range covered {
		for ; p != "/" && p != "."; p = filepath.Dir(p) {
			if name := leaseName(p); names[name] {
				paths = append(paths, p)
				delete(names, name) // once each
			}
		}
	}
	slices.Sort(paths) // parents first
	for _, p := range paths {
		l, err := openLease(ls.dir, p, os.O_RDWR)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		ls.held = append(ls.held, l)
	}
	return nil
}

// openLease opens a lease with a shared lock, which it gets at once: an
// exclusive one is only ever held under the lock that the caller has.
func openLease(dir, path string, flag int) (*lease, error) {
	f, err := os.OpenFile(filepath.Join(dir, leaseName(path)), flag|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	l := &lease{f: f}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot lock %q: %w", f.Name(), err), f.Close())
	}
	if err := l.read(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return l, nil
}

// make makes one mount point, or shares one that another run has just made.
// One that somebody else made meanwhile needs nothing: it is covered as it is.
func (ls *leases) make(g Ghost) error {
	l, err := openLease(ls.dir, g.Path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	ls.held = append(ls.held, l)
	if l.note.Ino != 0 && l.note.stands() == nil {
		return nil
	}
	n := note{Path: g.Path, Dir: g.Dir, Intent: time.Now().UnixNano()}
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
	return ls.log("made", made)
}

// makeLate makes a mount point while the launch runs, where the host has taken
// away what stood there.
func (ls *leases) makeLate(g Ghost, rec *plan.Record) error {
	if !filepath.IsAbs(ls.dir) {
		return errors.New("internal error: there is no state directory to note a mount point in")
	}
	unlock, err := lockLeases(ls.dir)
	if err != nil {
		return err
	}
	defer unlock()
	return ls.take([]Ghost{g}, nil, rec)
}

func (ls *leases) log(action string, n note) error {
	if ls.journal == nil {
		return nil
	}
	return ls.journal.Add(plan.Step{
		Time: time.Now(), Action: action, Kind: "mount_point", Path: n.Path,
		Detail: fmt.Sprintf("dev %d ino %d", n.Dev, n.Ino),
	})
}

// release gives the leases up, the deepest path first, and removes what
// nobody else needs. Call it when nothing of the sandbox is left.
func (ls *leases) release() error {
	if ls == nil || len(ls.held) == 0 {
		return nil
	}
	unlock, err := lockLeases(ls.dir)
	if err != nil {
		return err
	}
	defer unlock()
	var errs []error
	for i := len(ls.held) - 1; i >= 0; i-- {
		removed, err := ls.held[i].end()
		if err == nil && removed {
			err = ls.log("removed", ls.held[i].note)
		}
		errs = append(errs, err)
	}
	ls.held = nil
	if ls.journal != nil {
		errs = append(errs, ls.journal.Close())
	}
	return errors.Join(errs...)
}

// end removes mount point and lease if this run was the last to hold it.
func (l *lease) end() (removed bool, err error) {
	defer l.f.Close()
	err = unix.Flock(int(l.f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot lock %q: %w", l.f.Name(), err)
	}
	// Another run may have made it anew since.
	if err := l.read(); err != nil {
		return false, err
	}
	if l.note.Path != "" {
		if removed, err = l.note.remove(); err != nil {
			return false, err // the lease stays for the next one to try
		}
	}
	return removed, os.Remove(l.f.Name())
}

// Reclaim removes what runs left behind that were killed, mount points and
// what was made under guarded names, and answers the paths. Call it before the
// guard looks at the file system.
func Reclaim(state string) ([]string, error) {
	points, err := reclaimPoints(state)
	taken, werr := reclaimWatches(state)
	return append(points, taken...), errors.Join(err, werr)
}

func reclaimPoints(state string) ([]string, error) {
	dir := filepath.Join(state, leaseDir)
	names := leaseNames(dir)
	if len(names) == 0 {
		return nil, nil
	}
	unlock, err := lockLeases(dir)
	if err != nil {
		return nil, err
	}
	defer unlock()
	return reclaim(dir, names)
}

// reclaim ends every lease that nobody holds, the deepest paths first: a
// directory goes only when it is empty.
func reclaim(dir string, names map[string]bool) (removed []string, err error) {
	var list []*lease
	var errs []error
	for name := range names {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR|unix.O_NOFOLLOW, 0)
		if err != nil {
			errs = append(errs, ignoreGone(err))
			continue
		}
		l := &lease{f: f}
		if err := l.read(); err != nil {
			errs = append(errs, err, f.Close())
			continue
		}
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b *lease) int { return strings.Compare(b.note.Path, a.note.Path) })
	for _, l := range list {
		ok, err := l.end()
		if ok {
			removed = append(removed, l.note.Path)
		}
		errs = append(errs, err)
	}
	return removed, errors.Join(errs...)
}

// lockLeases keeps other launches from deciding at the same time. It is held
// for a few system calls.
func lockLeases(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make %q: %w", dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, leaseLock), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock %q: %w", dir, err)
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot lock %q: %w", dir, err), f.Close())
	}
	return func() { f.Close() }, nil
}

// maxNote bounds what is read of a lease: a path and a few numbers.
const maxNote = 64 << 10

func (l *lease) read() error {
	b, err := io.ReadAll(io.NewSectionReader(l.f, 0, maxNote))
	if err == nil && len(b) > 0 {
		err = json.Unmarshal(b, &l.note)
	}
	if err != nil {
		return fmt.Errorf("cannot read lease %q: %w", l.f.Name(), err)
	}
	return nil
}

// write replaces what the lease says. Padding instead of truncation: a crash
// between the two would leave half a note.
func (l *lease) write(n note) error {
	b, err := json.Marshal(n)
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
