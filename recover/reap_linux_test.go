package recover_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold/plan"
	"pinfold/recover"
)

// past is a state directory with a record of each kind; none of them is held.
type past struct {
	t     *testing.T
	state string
}

func (p past) path(name string) string { return filepath.Join(p.state, plan.RecordsDir, name) }

func (p past) put(path string) {
	p.t.Helper()
	err := os.MkdirAll(filepath.Dir(p.path(path)), 0o700)
	if err := errors.Join(err, os.WriteFile(p.path(path), nil, 0o600)); err != nil {
		p.t.Fatal(err)
	}
}

// ended makes a record of a launch that has ended.
func (p past) ended(name string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Dir(p.path(name)), 0o700); err != nil {
		p.t.Fatal(err)
	}
	rec, err := plan.CreateRecord(p.path(name))
	if err != nil {
		p.t.Fatal(err)
	}
	_, err = rec.Pin(&plan.Plan{Version: plan.Version, Backend: "bwrap", Command: []string{"true"}})
	if err := errors.Join(err, rec.WriteExit(plan.Exit{Reason: "exited"}), rec.Close()); err != nil {
		p.t.Fatal(err)
	}
}

// age makes a record an old one.
func (p past) age(name string) {
	p.t.Helper()
	old := time.Now().Add(-48 * time.Hour)
	if err := os.Chtimes(p.path(name), old, old); err != nil {
		p.t.Fatal(err)
	}
}

func (p past) left() (names []string) {
	p.t.Helper()
	list, err := os.ReadDir(filepath.Join(p.state, plan.RecordsDir))
	if err != nil {
		p.t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// reaps checks what a reaping clears, which a dry run says before and doesn't
// do, and what it leaves alone.
func (p past) reaps(olderThan time.Duration, cleared, leftAlone []string) {
	p.t.Helper()
	for _, dry := range []bool{true, false} {
		before := p.left()
		done, err := recover.Reap(soon(p.t), recover.ReapOptions{State: p.state, OlderThan: olderThan, DryRun: dry})
		var got, unclear []string
		for _, c := range done.Cleared {
			if c.Kind == recover.KindRecord { // other tests leave cgroups
				got = append(got, filepath.Base(c.Path))
			}
		}
		for _, u := range done.Unclear {
			unclear = append(unclear, filepath.Base(u.Record))
		}
		slices.Sort(got)
		if diff := cmp.Diff([][]string{cleared, leftAlone}, [][]string{got, unclear}); err != nil || diff != "" {
			p.t.Errorf("dry run %v: %v, %s", dry, err, diff)
		}
		want := slices.DeleteFunc(slices.Clone(before), func(name string) bool { return !dry && slices.Contains(cleared, name) })
		if diff := cmp.Diff(want, p.left()); diff != "" {
			p.t.Errorf("dry run %v: %s", dry, diff)
		}
	}
}

// TestReapRecords: an old record goes whole, whatever its launch left in it; one
// of which an earlier removal left a part goes at once, and one that holds what
// no launch puts there stays whole.
func TestReapRecords(t *testing.T) {
	t.Parallel()
	p := past{t, t.TempDir()}
	for _, name := range []string{"old", "old-taken", "old-tried", "old-used", "young"} {
		p.ended(name)
	}
	for _, path := range []string{
		"old-taken/taken/1-.envrc", "old-tried/plan.1.json", "old-used/plan.1.json", "old-used/mine",
		"young/taken/1-.envrc", "broken-taken/taken/1-.envrc", "broken-tried/plan.1.json", "broken-tried/plan.2.json",
		".gone-half/taken/1-.envrc", "killed/plan.1.json", "killed/journal", "killed/taken/1-.envrc",
	} {
		p.put(path)
	}
	for _, name := range []string{"old", "old-taken", "old-tried", "old-used"} {
		p.age(name)
	}
	p.reaps(0, []string{".gone-half", "broken-taken", "broken-tried"}, nil)
	p.reaps(24*time.Hour, []string{"old", "old-taken", "old-tried"}, []string{"old-used"})
	p.reaps(24*time.Hour, nil, []string{"old-used"})
	p.age("killed")
	p.reaps(24*time.Hour, []string{"killed"}, []string{"old-used"})
	if err := os.Remove(p.path("old-used/mine")); err != nil {
		t.Fatal(err)
	}
	p.age("old-used")
	p.reaps(24*time.Hour, []string{"old-used"}, nil)
	if diff := cmp.Diff([]string{"young"}, p.left()); diff != "" {
		t.Error(diff)
	}
}

// TestReapTellsOfRecordsElsewhere: a launch that lives is counted wherever its
// record lies, once, and nothing of it is touched.
func TestReapTellsOfRecordsElsewhere(t *testing.T) {
	t.Parallel()
	state, rec := t.TempDir(), pinned(t)
	undo, err := plan.NoteRecord(state, "run", rec.Path())
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Dir(rec.Path()), link); err != nil {
		t.Fatal(err)
	}
	for what, records := range map[string][]string{"of itself": nil, "by name": {rec.Path()}, "by another name": {filepath.Join(link, "r")}} {
		done, err := recover.Reap(soon(t), recover.ReapOptions{State: state, Records: records, OlderThan: 1})
		if err != nil || len(done.Living) != 1 || len(done.Unclear) != 0 {
			t.Errorf("%s: %+v, %v", what, done, err)
		}
	}
	if err := errors.Join(rec.WriteExit(plan.Exit{Reason: "exited"}), undo(), rec.Close()); err != nil {
		t.Fatal(err)
	}
	done, err := recover.Reap(soon(t), recover.ReapOptions{State: state, OlderThan: 1})
	if err != nil || len(done.Living)+len(done.Unclear) != 0 {
		t.Errorf("when it has ended: %+v, %v", done, err)
	}
}
