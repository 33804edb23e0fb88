package bwrap

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// taking takes away what stands at a path, into a room of its own.
type taking struct {
	*aside
	keep string
	room room
}

func takeAt(t *testing.T, path string) *taking {
	t.Helper()
	v, err := find(path, filepath.Dir(path))
	if err != nil || v == nil {
		t.Fatalf("nothing found at %s: %v", path, err)
	}
	defer v.close()
	k := &taking{keep: filepath.Join(t.TempDir(), "taken"), room: newRoom()}
	if k.aside, err = v.takeAway(k.keep, &k.room); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Errorf("%s is still there", path)
	}
	return k
}

func (k *taking) end(t *testing.T) {
	t.Helper()
	if err := k.finish(k.keep, &k.room); err != nil || !k.settled {
		t.Fatalf("settled %v: %v", k.settled, err)
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func put(t *testing.T, f *os.File, text string) {
	t.Helper()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// left are the names beside.
func left(t *testing.T, dir string) []string {
	t.Helper()
	list, err := filepath.Glob(dir + "/.pinfold-taken-*")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Whoever is writing when the name is taken away loses nothing: neither what
// comes between the look and the copy, nor what comes first.
func TestTakenWhileItIsWritten(t *testing.T) {
	t.Parallel()
	for name, early := range map[string]string{"empty": "", "begun": "export A=1\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			f, err := os.Create(dir + "/.envrc")
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			put(t, f, early)
			k := takeAt(t, dir+"/.envrc")
			if err := k.settle(k.keep, &k.room); err != nil || k.settled {
				t.Fatalf("settled %v while it is open: %v", k.settled, err)
			}
			put(t, f, "export B=2\n")
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			k.end(t)
			if got := content(t, k.kept); got != early+"export B=2\n" || len(left(t, dir)) > 0 {
				t.Errorf("kept %q; beside: %v", got, left(t, dir))
			}
		})
	}
}

// What is open when the run ends stays the file that it is written to.
func TestTakenAndNeverClosed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, err := os.Create(dir + "/.envrc")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	k := takeAt(t, dir+"/.envrc")
	k.end(t)
	put(t, f, "late\n")
	if got := content(t, k.kept); got != "late\n" || filepath.Dir(k.kept) != dir {
		t.Errorf("kept %q as %s", got, k.kept)
	}
	if list, err := os.ReadDir(k.keep); err == nil && len(list) > 0 {
		t.Errorf("half of it is kept as well: %v", list)
	}
}

func TestTakenEmpty(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/.envrc", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	k := takeAt(t, dir+"/.envrc")
	if k.settled {
		t.Error("whoever has just made it may be about to write")
	}
	k.end(t)
	if k.kept != "" || k.gone || len(left(t, dir)) > 0 {
		t.Errorf("%+v; beside: %v", k.aside, left(t, dir))
	}
}

// A directory waits for every file in it, and what comes after the copy stays.
func TestTakenTree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := dir + "/.vscode"
	if err := os.MkdirAll(at+"/deep", 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(at + "/deep/tasks.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	k := takeAt(t, at)
	if k.settled {
		t.Fatal("a file in it is open")
	}
	put(t, f, "{}")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	k.end(t)
	if got := content(t, k.kept+"/deep/tasks.json"); got != "{}" || k.rest != "" || len(left(t, dir)) > 0 {
		t.Errorf("kept %q, rest %q; beside: %v", got, k.rest, left(t, dir))
	}
}

func TestTakenTreeThatGrows(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	at := top + "/tree"
	for name, text := range map[string]string{"a": "1", "b": "2"} {
		if err := os.MkdirAll(at, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := openDir(top)
	if err != nil {
		t.Fatal(err)
	}
	defer closeFD(&dir)
	r := newRoom()
	if _, err := r.keep(dir, "tree", top+"/taken", "tree"); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"a": "1 and more", "new": "3"} {
		if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.removeTree(dir, "tree"); err == nil {
		t.Error("all was removed")
	}
	if a, n := content(t, at+"/a"), content(t, at+"/new"); a != "1 and more" || n != "3" {
		t.Errorf("left: %q and %q", a, n)
	}
	if !strings.Contains(content(t, top+"/taken/1-tree/b"), "2") {
		t.Error("b wasn't kept")
	}
}

// What a killed run had moved aside goes into its record, and what is beside of
// somebody else's, from another time, stays.
func TestAsidesOfAKilledRun(t *testing.T) {
	t.Parallel()
	dir, keep := t.TempDir(), filepath.Join(t.TempDir(), "taken")
	for name, text := range map[string]string{asidePrefix + "A": "export A=1\n", asidePrefix + "B": "", "mine": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	n := watchNote{Began: time.Now().UnixNano(), Keep: keep}
	n.Names = []watchedName{{Path: dir + "/.envrc", Root: dir}}
	if removed, err := (watchNote{Began: 1, Keep: keep, Names: n.Names}).clear(time.Unix(2, 0)); err != nil || len(removed) > 0 {
		t.Errorf("of another time: %v, %v", removed, err)
	}
	if err := os.Chmod(dir, 0); err != nil { // as the command may leave it
		t.Fatal(err)
	}
	removed, err := n.clear(time.Now())
	if err != nil || len(removed) != 2 || len(left(t, dir)) > 0 {
		t.Errorf("removed %v: %v; beside: %v", removed, err, left(t, dir))
	}
	if got := content(t, keep+"/1-"+asidePrefix+"A"); got != "export A=1\n" {
		t.Errorf("kept %q", got)
	}
	if content(t, dir+"/mine") != "x" {
		t.Error("another file is gone")
	}
}
