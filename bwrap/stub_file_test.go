package bwrap_test

import (
	"slices"
	"testing"

	"pinfold/bwrap"
	"pinfold/plan"
)

// Where a memfd can be executed the stub is one, and nothing inside leads to it.
func TestStubWithoutAPath(t *testing.T) {
	t.Parallel()
	for _, runs := range []bool{false, true} {
		m := machine()
		m.RunsMemfd = runs
		l, err := bwrap.TranslateInput(bwrap.Input{Argv: []string{"true"}, Dir: "/"}, m, options())
		if err != nil {
			t.Fatal(err)
		}
		want := bwrap.StubPath
		if runs {
			want = bwrap.StubFile
		}
		if l.Stub != want {
			t.Errorf("memfds run: %v: got %q, wanted %q", runs, l.Stub, want)
		}
		mounted := slices.ContainsFunc(l.Plan.Mounts, func(m plan.Mount) bool { return m.Path == bwrap.StubPath })
		if named := slices.Contains(l.Args, "{fd:stub}"); named == runs || mounted == runs {
			t.Errorf("memfds run: %v: a file for it: %v, %v", runs, named, mounted)
		}
		if last := l.Plan.Data[len(l.Plan.Data)-1]; runs && last.Name != bwrap.DataStub {
			t.Errorf("it isn't handed over last, but %q", last.Name)
		}
	}
}
