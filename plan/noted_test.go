package plan_test

import (
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"pinfold/plan"
)

// TestNoted: a record that lies elsewhere is heard of while its launch lives,
// and afterwards for as long as nobody knows how it ended.
func TestNoted(t *testing.T) {
	t.Parallel()
	state, record := t.TempDir(), filepath.Join(t.TempDir(), "r")
	want := func(what string, records ...string) {
		t.Helper()
		got, err := plan.Noted(state)
		if err != nil || cmp.Diff(records, got) != "" {
			t.Errorf("%s: %v, %v", what, got, err)
		}
	}
	note := func(run string) func() error {
		t.Helper()
		undo, err := plan.NoteRecord(state, run, record)
		if err != nil {
			t.Fatal(err)
		}
		return undo
	}
	left := func(name string) bool {
		_, err := os.Lstat(filepath.Join(state, "elsewhere", name))
		return err == nil
	}
	want("without any")
	if _, err := plan.CreateRecord(record); err != nil {
		t.Fatal(err)
	}
	undo := note("a")
	want("while it begins", record)
	if err := os.WriteFile(record+"/plan.json", nil, 0o400); err != nil {
		t.Fatal(err)
	}
	want("while it runs", record)
	if err := undo(); err != nil {
		t.Fatal(err)
	}
	want("when its supervisor has gone", record)
	if err := os.WriteFile(record+"/exit", nil, 0o400); err != nil {
		t.Fatal(err)
	}
	want("when it has ended")
	if left("a") {
		t.Error("the note is still there")
	}
	if undo = note("b"); undo() != nil || left("b") {
		t.Error("the note of a launch with an end is still there")
	}
	undo = note("c")
	if err := os.Rename(record, record+"2"); err != nil {
		t.Fatal(err)
	}
	if got, err := plan.Noted(state); err == nil {
		t.Errorf("a note that leads nowhere, of a launch that lives: %v", got)
	}
	if undo() != nil || left("c") {
		t.Error("the note of a record that is gone is still there")
	}
	empty := filepath.Join(state, "elsewhere", ".d")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if want("one that is just being written"); !left(".d") {
		t.Error("it is gone")
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(empty, old, old); err != nil {
		t.Fatal(err)
	}
	if want("one that was never written"); left(".d") {
		t.Error("it is still there")
	}
}

// TestNotedMeanwhile: who asks what runs is in nobody's way.
func TestNotedMeanwhile(t *testing.T) {
	t.Parallel()
	state, record, stop := t.TempDir(), t.TempDir(), make(chan struct{})
	var asking sync.WaitGroup
	for range 2 {
		asking.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := plan.Noted(state); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 2000 {
		undo, err := plan.NoteRecord(state, strconv.Itoa(i), record)
		if err == nil {
			err = undo()
		}
		if err != nil {
			t.Error(err)
			break
		}
	}
	close(stop)
	asking.Wait()
}

func BenchmarkNoteRecord(b *testing.B) {
	state := b.TempDir()
	for b.Loop() {
		undo, err := plan.NoteRecord(state, "run", "/nowhere")
		if err == nil {
			err = undo()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}
