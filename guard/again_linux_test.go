package guard

import (
	"errors"
	"io"
	"os"
	"testing"

	"pinfold/policy"
)

// fleeting does something to a name when it is to be held.
type fleeting struct {
	fsys
	name string
	do   func(string) error
}

func (f *fleeting) hold(p string, id FileID) (io.Closer, error) {
	if p == f.name {
		if err := f.do(p); err != nil {
			return nil, err
		}
	}
	return f.fsys.hold(p, id)
}

// workspace is a gate over a directory with .vscode in it and a protected one.
func workspace(t *testing.T, do func(string) error) (dir string, launch func(name string) (*Grant, error)) {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "w")
	if err == nil {
		err = errors.Join(os.Mkdir(dir+"/.vscode", 0o755), os.Mkdir(dir+"/kept", 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Parse([]byte(`{"write": ["{workspace}"], "read_only": ["{workspace}/kept"]}`), "p.json")
	if err != nil {
		t.Fatal(err)
	}
	return dir, func(name string) (*Grant, error) {
		h := thisHost()
		h.fs = &fleeting{h.fs, dir + "/" + name, do}
		return newGate(h, p, Request{Argv: []string{"true"}, Dir: dir, Workspace: dir, UID: os.Getuid(), GID: os.Getgid()}, nil).launch(t.Context())
	}
}

// What vanishes while the guard looks is told from what else stands there now:
// another look helps, but for what the policy names and somebody replaced.
func TestVanishesWhileLookedAt(t *testing.T) {
	t.Parallel()
	replace := func(p string) error { return errors.Join(os.Rename(p, p+".was"), os.Mkdir(p, 0o755)) }
	for name, c := range map[string]struct {
		name  string
		do    func(string) error
		again bool
	}{
		"a guarded name vanishes":    {".vscode", os.RemoveAll, true},
		"a guarded name is replaced": {".vscode", replace, true},
		"a named one vanishes":       {"kept", os.RemoveAll, true},
		"a named one is replaced":    {"kept", replace, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, launch := workspace(t, c.do)
			_, err := launch(c.name)
			if err == nil || errors.Is(err, ErrAgain) != c.again {
				t.Errorf("got %v, and another look helps: %v", err, errors.Is(err, ErrAgain))
			}
		})
	}
}

func TestChanged(t *testing.T) {
	t.Parallel()
	dir, launch := workspace(t, nil)
	g, err := launch("nothing")
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	for _, step := range []struct {
		name string
		do   func() error
		want string
	}{
		{"nothing", func() error { return nil }, ""},
		{"gone", func() error { return os.Rename(dir+"/.vscode", dir+"/was") }, dir + "/.vscode"},
		{"another", func() error { return os.Mkdir(dir+"/.vscode", 0o755) }, dir + "/.vscode"},
		{"a link", func() error { return errors.Join(os.Remove(dir+"/.vscode"), os.Symlink("was", dir+"/.vscode")) }, dir + "/.vscode"},
		{"as it was", func() error {
			return errors.Join(os.Remove(dir+"/.vscode"), os.Rename(dir+"/was", dir+"/.vscode"))
		}, ""},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if got := g.Changed(); got != step.want {
			t.Errorf("%s: changed is %q, wanted %q", step.name, got, step.want)
		}
	}
}
