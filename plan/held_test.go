package plan_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"pinfold/plan"
	"pinfold/policy"
)

func held(t *testing.T, dir string) bool {
	t.Helper()
	h, err := plan.IsHeld(dir)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestRecordIsHeldUntilClose(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "r")
	r, err := plan.CreateRecord(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !held(t, dir) {
		t.Error("nobody holds a record that is being written")
	}
	var refusal *policy.Refusal
	if _, err := plan.CreateRecord(dir); !errors.As(err, &refusal) || refusal.Code != "record_in_use" {
		t.Errorf("a second launch took it: %v", err)
	}
	if err := plan.RemoveRecord(dir); !errors.Is(err, plan.ErrHeld) || !errors.Is(err, plan.ErrLeft) {
		t.Errorf("a held record: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if held(t, dir) {
		t.Error("somebody holds a closed record")
	}
}

func TestStopIsTheLastAsked(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "r")
	r, err := plan.CreateRecord(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, want := range []string{"", plan.StopTerm, plan.StopKill} {
		if want != "" {
			if err := plan.NoteStop(dir, want); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := r.Stop(); err != nil || got != want {
			t.Errorf("got %q, %v, wanted %q", got, err, want)
		}
	}
}

func TestRecordsAreListed(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	if list, err := plan.Records(state); err != nil || len(list) != 0 {
		t.Errorf("got %q, %v of an empty state", list, err)
	}
	for _, d := range []string{"records/b", "records/a"} {
		if err := os.MkdirAll(filepath.Join(state, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(state, "records/file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	list, err := plan.Records(state)
	if err != nil || len(list) != 2 || filepath.Base(list[0]) != "a" {
		t.Errorf("got %q, %v", list, err)
	}
}
