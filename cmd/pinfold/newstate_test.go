package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"pinfold/policy"
)

// TestNewStateIsTakenAway: by a refusal for where it lies, and only what the
// launch made.
func TestNewStateIsTakenAway(t *testing.T) {
	t.Parallel()
	unsafe := &policy.Refusal{Reason: policy.Denied, Code: "state_unsafe"}
	all := []string{"run/", "containers/stub-1", "bubblewrap.json", "denied-trees.json"}
	for name, c := range map[string]struct {
		before, made []string
		why          error
		want         []string
	}{
		"all of it":                   {nil, all, fmt.Errorf("joined: %w", unsafe), nil},
		"not in another end":          {nil, []string{"run/"}, errors.New("another"), []string{"a", "a/state", "a/state/run"}},
		"not in success":              {nil, []string{"run/"}, nil, []string{"a", "a/state", "a/state/run"}},
		"not what was there":          {[]string{"a/state/run/", "a/state/denied-trees.json"}, []string{"bubblewrap.json"}, unsafe, []string{"a", "a/state", "a/state/denied-trees.json", "a/state/run"}},
		"not what others made":        {nil, append(slices.Clone(all), "trust/", "run/1/"), unsafe, []string{"a", "a/state", "a/state/run", "a/state/run/1", "a/state/trust"}},
		"not the directories above":   {[]string{"a/"}, all, unsafe, []string{"a"}},
		"not another container's own": {nil, []string{"containers/x"}, unsafe, []string{"a", "a/state", "a/state/containers", "a/state/containers/x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			top := t.TempDir()
			for _, at := range c.before {
				makeAt(t, filepath.Join(top, at), at)
			}
			p := &program{state: filepath.Join(top, "a/state")}
			n, state, err := p.makeState()
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range c.made {
				makeAt(t, filepath.Join(state, at), at)
			}
			if err := n.end(c.why); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(c.want, namesBeneath(t, top)); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

// TestStateOfSomethingElse: a home that holds other things is refused where it
// is named. Any other directory is its owner's.
func TestStateOfSomethingElse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		holds   []string
		refused bool
	}{
		"nothing":               {nil, false},
		"a home":                {[]string{".bashrc", "src/"}, true},
		"a home without much":   {[]string{".profile"}, true},
		"/var":                  {[]string{"run/", "tmp/", "lib/"}, true},
		"a file system's root":  {[]string{"lost+found/"}, false},
		"a launch that began":   {[]string{"run/", "tmp/"}, false},
		"another one's writing": {[]string{"run/", "denied-trees.json.new", ".new-123"}, false},
		"its own":               {[]string{"records/", "run/", "notes.txt"}, false},
		"pins alone":            {[]string{"trust/", "README"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "state")
			makeAt(t, dir, "/")
			for _, at := range c.holds {
				makeAt(t, filepath.Join(dir, at), at)
			}
			before := namesBeneath(t, dir)
			err := checkState(dir, dir)
			if other := checkState(dir, t.TempDir()); other != nil {
				t.Errorf("of another directory: %v", other)
			}
			var r *policy.Refusal
			if c.refused != errors.As(err, &r) || c.refused && (r.Code != "state_unusable" || r.Fix == "") || !c.refused && err != nil {
				t.Errorf("got %v", err)
			}
			if diff := cmp.Diff(before, namesBeneath(t, dir)); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
		})
	}
}

// makeAt makes a directory where name ends with a slash, else a file.
func makeAt(t *testing.T, path, name string) {
	t.Helper()
	dir := filepath.Dir(path)
	if name[len(name)-1] == '/' {
		dir = path
	}
	err := os.MkdirAll(dir, 0o700)
	if err == nil && dir != path {
		err = os.WriteFile(path, nil, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func namesBeneath(t *testing.T, top string) (names []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(top), ".", func(path string, _ fs.DirEntry, err error) error {
		if path != "." {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
