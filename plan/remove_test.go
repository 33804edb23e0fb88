package plan_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold/plan"
)

// whole is what lies beneath a directory.
func whole(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		list = append(list, d.Type().String()+" "+path)
		return err
	}))
	return list
}

func makeFile(t *testing.T, path string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, []byte("x"), 0o600))
}

// TestRemoveRecordWhole: whatever launches leave in a record goes with it, what
// was taken away and the plans of earlier attempts as well, and nothing else.
func TestRemoveRecordWhole(t *testing.T) {
	t.Parallel()
	outside := filepath.Join(t.TempDir(), "outside")
	makeFile(t, outside+"/file")
	for name, fill := range map[string]func(dir string){
		"half-written files": func(dir string) { makeFile(t, dir+"/.exit.new"); makeFile(t, dir+"/.plan.json.new") },
		"earlier attempts":   func(dir string) { makeFile(t, dir+"/plan.1.json"); makeFile(t, dir+"/plan.12.json") },
		"a file taken away":  func(dir string) { makeFile(t, dir+"/taken/1-.envrc") },
		"links": func(dir string) {
			must(t, os.Mkdir(dir+"/taken", 0o700))
			must(t, os.Symlink(outside, dir+"/taken/1-.vscode"))
			must(t, os.Symlink(outside+"/file", dir+"/taken/2-.envrc"))
			must(t, os.Symlink("nowhere", dir+"/taken/3-.envrc"))
		},
		"closed directories": func(dir string) {
			makeFile(t, dir+"/taken/1-.vscode/a/b/tasks.json")
			must(t, os.Symlink(outside, dir+"/taken/1-.vscode/a/link"))
			must(t, os.Chmod(dir+"/taken/1-.vscode/a/b", 0o500))
			must(t, os.Chmod(dir+"/taken/1-.vscode/a", 0))
			must(t, os.Chmod(dir+"/taken", 0o100))
		},
		"nothing but what was taken away": func(dir string) {
			for _, f := range []string{"plan.json", "root", "exit", "journal"} {
				must(t, os.Remove(filepath.Join(dir, f)))
			}
			makeFile(t, dir+"/taken/1-.envrc")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := written(t)
			fill(dir)
			if err := plan.CheckRemovable(dir); err != nil {
				t.Error(err)
			}
			must(t, plan.RemoveRecord(dir))
			if left := whole(t, filepath.Dir(dir)); len(left) != 1 {
				t.Errorf("left: %q", left)
			}
			if left := whole(t, outside); len(left) != 2 {
				t.Errorf("outside is left: %q", left)
			}
		})
	}
}

// TestRecordIsLeftWhole: of a record that isn't to be removed nothing is.
func TestRecordIsLeftWhole(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	makeFile(t, outside+"/file")
	for name, fill := range map[string]func(dir string){
		"somebody's file":       func(dir string) { makeFile(t, dir+"/mine") },
		"somebody's plan":       func(dir string) { makeFile(t, dir+"/plan.1a.json") },
		"somebody's directory":  func(dir string) { makeFile(t, dir+"/notes/file") },
		"a directory as a file": func(dir string) { must(t, os.Mkdir(dir+"/plan.1.json", 0o700)) },
		"a file as a directory": func(dir string) { makeFile(t, dir+"/taken") },
		"a link as a directory": func(dir string) { must(t, os.Symlink(outside, dir+"/taken")) },
		"another mode":          func(dir string) { must(t, os.Chmod(dir, 0o755)) }, //nolint:gosec // what is looked for
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := written(t)
			makeFile(t, dir+"/plan.2.json")
			fill(dir)
			before := whole(t, dir)
			for _, remove := range []func(string) error{plan.CheckRemovable, plan.RemoveRecord} {
				if err := remove(dir); !errors.Is(err, plan.ErrLeft) || errors.Is(err, plan.ErrHeld) {
					t.Errorf("got %v", err)
				}
			}
			if diff := cmp.Diff(before, whole(t, dir)); diff != "" {
				t.Error(diff)
			}
			if left := whole(t, outside); len(left) != 2 {
				t.Errorf("outside is left: %q", left)
			}
		})
	}
}

// TestRemoveRecordThatCannotMove: where its name can't be taken away, nothing is.
func TestRemoveRecordThatCannotMove(t *testing.T) {
	t.Parallel()
	dir := written(t)
	makeFile(t, dir+"/taken/1-.envrc")
	parent := filepath.Dir(dir)
	before := whole(t, dir)
	must(t, os.Chmod(parent, 0o500))
	defer os.Chmod(parent, 0o700) //nolint:errcheck,gosec // for its removal
	err := plan.RemoveRecord(dir)
	if os.Geteuid() == 0 {
		must(t, err) // a mode keeps root from nothing
		return
	}
	if err == nil || errors.Is(err, plan.ErrLeft) {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(before, whole(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// TestRemovalCutShort: a record whose removal was cut short is none any more,
// and goes when somebody removes what is left.
func TestRemovalCutShort(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	makeFile(t, state+"/records/.gone-a/taken/1-.envrc")
	makeFile(t, state+"/records/.gone-b/plan.1.json")
	for _, name := range []string{"b", "c"} {
		makeFile(t, state+"/records/"+name+"/plan.json")
	}
	beneath := func(names ...string) []string {
		for i, name := range names {
			names[i] = filepath.Join(state, "records", name)
		}
		return names
	}
	lists := func(records, unfinished []string) {
		t.Helper()
		got, err := plan.Records(state)
		half, herr := plan.Unfinished(state)
		if diff := cmp.Diff([][]string{records, unfinished}, [][]string{got, half}); err != nil || herr != nil || diff != "" {
			t.Errorf("%v, %v, %s", err, herr, diff)
		}
	}
	lists(beneath("b", "c"), beneath(".gone-a", ".gone-b"))
	must(t, plan.RemoveRecord(state+"/records/b"))
	lists(beneath("c"), beneath(".gone-a"))
	must(t, plan.RemoveRecord(state+"/records/.gone-a"))
	lists(beneath("c"), nil)
	if err := plan.RemoveRecord(state + "/records/b"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
