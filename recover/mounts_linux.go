package recover

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"pinfold/guard"
	"pinfold/plan"
)

// proveMounts compares the live table with the recorded one, and the plan's
// own mounts with both: a cover that fell off and a mount that came later
// each show as a line. What the supervisor has put right meanwhile it has
// written down, and so has it which of the host's mounts do no harm.
func (p *prover) proveMounts() error {
	if len(p.stored.Root.Mounts) == 0 {
		return refuted(ProofMounts, "the record has no mount table")
	}
	t, err := p.readTable()
	if err != nil {
		return err
	}
	defer t.close()
	if err := t.proveMended(); err != nil {
		return err
	}
	live, recorded := t.unmended(t.lines), t.unmended(p.stored.Root.Mounts)
	came, went := without(live, recorded), without(recorded, live)
	if p.exactMounts && len(came)+len(went) > 0 {
		return refuted(ProofMounts, "mounted since, or changed: %q; no longer mounted: %q", came, went)
	}
	for _, line := range came {
		if err := t.allowNew(line); err != nil {
			return err
		}
	}
	for _, line := range went {
		if err := t.allowGone(line); err != nil {
			return err
		}
	}
	if !slices.Equal(without(live, came), without(recorded, went)) {
		return refuted(ProofMounts, "the mounts are in another order than recorded")
	}
	return t.provePlanned()
}

// liveTable is the sandbox's mount table, and the root that it belongs to.
type liveTable struct {
	root  int
	lines []string
	ids   map[string][]uint64 // of the mounts at a place
	// planned are the places of the plan.
	planned map[string]plan.Mount
	// last is what the supervisor did last at a place.
	last  map[string]string
	letBe map[string]bool
}

func (p *prover) readTable() (*liveTable, error) {
	text, err := p.init.read("mountinfo")
	if err != nil {
		return nil, err
	}
	t := &liveTable{root: -1, ids: map[string][]uint64{}, planned: map[string]plan.Mount{}, last: map[string]string{}, letBe: map[string]bool{}}
	if t.lines, err = plan.MountTable(bytes.NewReader(text)); err != nil {
		return nil, err
	}
	points, err := guard.ReadMounts(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	for _, m := range points {
		t.ids[m.Path] = append(t.ids[m.Path], uint64(m.ID))
	}
	for _, m := range p.stored.Plan.Mounts {
		for name, dir := range p.stored.Root.Fresh {
			m.Path = strings.ReplaceAll(m.Path, name, dir)
		}
		t.planned[m.Path] = m
	}
	t.readJournal(p.stored.Steps)
	t.root, err = unix.Openat(p.init.dir, p.init.thread+"root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ESRCH):
		return nil, errGone
	case errors.Is(err, fs.ErrPermission):
		t.root = -1 // not this user's to look into: what can't be told counts as shown
	case err != nil:
		return nil, err
	}
	return t, nil
}

func (t *liveTable) close() { _ = unix.Close(t.root) }

func (t *liveTable) readJournal(steps []plan.Step) {
	for _, s := range steps {
		if s.Kind != plan.KindMount {
			continue
		}
		switch s.Action {
		case plan.ActionMended, plan.ActionGone:
			t.last[s.Path] = s.Action
		case plan.ActionLetBe:
			t.letBe[s.Path] = true
		}
	}
}

// proveMended: a place that was covered anew must be read-only on top, and
// where nothing stood any more nothing may stand.
func (t *liveTable) proveMended() error {
	top := map[string]string{}
	for _, line := range t.lines {
		top[placeOf(line)] = line
	}
	for at, did := range t.last {
		flags := top[at][strings.LastIndexByte(top[at], ' ')+1:]
		switch {
		case did == plan.ActionGone && !t.absent(at):
			return refuted(ProofMounts, "left without a cover since nothing stood there, and now something does: %q", at)
		case did == plan.ActionMended && !slices.Contains(strings.Split(flags, ","), "ro"):
			return refuted(ProofMounts, "covered anew, and now it isn't: %q %s", at, flags)
		}
	}
	return nil
}

// unmended leaves out the places that the supervisor has mended.
func (t *liveTable) unmended(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return t.last[placeOf(line)] != "" })
}

// without is what of a list isn't in another, each as often.
func without(list, less []string) []string {
	left := map[string]int{}
	for _, line := range less {
		left[line]++
	}
	var out []string
	for _, line := range list {
		if left[line]--; left[line] < 0 {
			out = append(out, line)
		}
	}
	return out
}

// allowNew: a mount that came later is one of the host's that doesn't show, or
// that the supervisor has judged; it is at no place of the plan's, and over none.
func (t *liveTable) allowNew(line string) error {
	at := placeOf(line)
	if !t.shows(at) {
		return nil
	}
	for place := range t.planned {
		if place == at || strings.HasPrefix(place, strings.TrimSuffix(at, "/")+"/") {
			return refuted(ProofMounts, "mounted since, or changed: %s", line)
		}
	}
	if !t.letBe[at] {
		return refuted(ProofMounts, "mounted since, or changed: %s", line)
	}
	return nil
}

// allowGone: a mount of the host's may go, as it may there. The sandbox's own
// must stay: those of the plan, and what bubblewrap makes in /proc and /dev.
func (t *liveTable) allowGone(line string) error {
	at := placeOf(line)
	_, ours := t.planned[at]
	if ours || (within(at, "/proc") || within(at, "/dev")) && !t.absent(at) {
		return refuted(ProofMounts, "no longer mounted: %s", line)
	}
	return nil
}

func within(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

// provePlanned: each place of the plan is one of the table.
func (t *liveTable) provePlanned() error {
	for at, m := range t.planned {
		if strings.HasPrefix(at, "{") {
			continue // made for the launch, in a container whose record knows it by its name alone
		}
		if m.Access == "pin" || m.Kind == "symlink" || m.Kind == "dir" || t.last[at] == plan.ActionGone {
			continue // buried on purpose, or no mount
		}
		if len(t.ids[at]) == 0 {
			return refuted(ProofMounts, "the plan mounts %q (%s), and nothing is mounted there", at, m.Access)
		}
	}
	return nil
}

// open looks a path up inside, through no link, openat2(2).
func (t *liveTable) open(at string) (int, error) {
	for {
		fd, err := unix.Openat2(t.root, at, &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS,
		})
		if err != unix.EINTR && err != unix.EAGAIN { //nolint:errorlint // x/sys returns it bare
			return fd, err
		}
	}
}

// absent reports whether nothing stands at a path inside.
func (t *liveTable) absent(at string) bool {
	fd, err := t.open(at)
	if err == nil {
		_ = unix.Close(fd)
	}
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)
}

// shows reports whether a path inside leads to a mount at that very place, and
// not to one that lies over it. What can't be told counts as shown.
func (t *liveTable) shows(at string) bool {
	fd, err := t.open(path.Clean(at))
	if err != nil {
		// What this user can't reach nobody inside can, who is the same one.
		return !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.EACCES)
	}
	defer unix.Close(fd) //nolint:errcheck // a path
	var st unix.Statx_t
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &st)
	return err != nil || st.Mask&unix.STATX_MNT_ID == 0 || slices.Contains(t.ids[at], st.Mnt_id)
}

// placeOf is the mount point that a line of a table begins with.
func placeOf(line string) string {
	at, err := strconv.QuotedPrefix(line)
	if err == nil {
		at, err = strconv.Unquote(at)
	}
	if err != nil {
		return ""
	}
	return at
}
