package launch_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold/container/launch"
	"pinfold/stub"
)

func TestDirs(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	a, err := launch.MakeDirs(state)
	if err != nil {
		t.Fatal(err)
	}
	b, err := launch.MakeDirs(state)
	if err != nil {
		t.Fatal(err)
	}
	if a.Root == b.Root || launch.DirsAt(a.Root).Handover != a.Handover {
		t.Errorf("%+v, %+v", a, b)
	}
	if st, err := os.Stat(a.Root); err != nil || st.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	closed := filepath.Join(a.Scratch, "0")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(closed, "x"), nil, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(closed, 0); err != nil {
		t.Fatal(err)
	}
	if err := a.Remove(); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(state + "/" + launch.DirsName + "/*"); err != nil || !cmp.Equal(left, []string{b.Root}) {
		t.Errorf("left: %v, %v", left, err)
	}
	if err := b.Remove(); err != nil {
		t.Error(err)
	}
}

func TestNotes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]launch.Notes{
		"":                    {},
		"term\n":              {Termed: true},
		"exit 3\n":            {Ended: true, Code: 3},
		"term\nsignal 15\n":   {Termed: true, Ended: true, Signal: 15},
		"term\nterm\nexit 0":  {Termed: true, Ended: true},
		"something else 15\n": {},
	} {
		d := launch.DirsAt(t.TempDir())
		if err := os.WriteFile(filepath.Join(d.Root, launch.NotesName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := launch.ReadNotes(d); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	if got, err := launch.ReadNotes(launch.DirsAt(t.TempDir())); err != nil || got != (launch.Notes{}) {
		t.Errorf("none: %+v, %v", got, err)
	}
	d := launch.DirsAt(t.TempDir())
	if err := os.WriteFile(filepath.Join(d.Root, launch.NotesName), []byte("signal x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := launch.ReadNotes(d); err == nil {
		t.Errorf("nonsense: %+v", got)
	}
}

// TestStub: one that somebody changed is written anew.
func TestStub(t *testing.T) {
	t.Parallel()
	want, err := stub.Binary(runtime.GOARCH)
	if err != nil {
		t.Skip(err)
	}
	state := t.TempDir()
	path, sum, err := launch.Stub(state, runtime.GOARCH)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("another"), 0o755); err != nil {
		t.Fatal(err)
	}
	again, sum2, err := launch.Stub(state, runtime.GOARCH)
	if err != nil || again != path || sum2 != sum {
		t.Fatalf("%q %s, %v", again, sum2, err)
	}
	got, err := os.ReadFile(path)
	st, serr := os.Stat(path)
	if err != nil || serr != nil || string(got) != string(want) || st.Mode().Perm() != 0o555 {
		t.Errorf("%d bytes, mode %v, %v, %v", len(got), st.Mode(), err, serr)
	}
}
